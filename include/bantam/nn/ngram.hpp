// Embeddings of n-grams, found by hash: which rows of a table belong to the tokens that a text has come to (Qwen4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bantam/core/error.hpp"

namespace bantam::inline v0::nn {

/// Numbers of such a table and of what reads it.
struct NgramOptions {
  static constexpr std::int64_t most_tokens = 8, most_heads = 64;

  std::int64_t tokens = 0;  ///< of the longest n-gram; 0: there is no table
  std::int64_t heads = 0;   ///< rows that each n-gram of 2 and more tokens has
  std::int64_t width = 0;   ///< of a row
  std::int64_t rows = 0;    ///< of the table
  std::int64_t parts = 1;   ///< in which folders have it, of equal rows
  std::int64_t taps = 0;    ///< of the convolution, which are `tokens` tokens apart
  std::int64_t end = 0;     ///< the token that n-grams do not reach over; stands for what is before a text
  std::int64_t image = 0;   ///< the token that stands for embeddings that came in the place of tokens; 0: `end`
  std::vector<std::uint64_t> multipliers;  ///< (tokens), from the last token backwards
  std::vector<std::int64_t> offsets, sizes;  ///< (all_heads()): where each head's rows begin, and how many it has
  bool operator==(const NgramOptions&) const = default;

  [[nodiscard]] bool exist() const noexcept { return tokens > 0; }
  /// Rows that a token reads, and numbers of all of them.
  [[nodiscard]] std::int64_t all_heads() const noexcept { return (tokens - 1) * heads; }
  [[nodiscard]] std::int64_t all_width() const noexcept { return all_heads() * width; }
  /// Tokens before the one at hand that the convolution sees.
  [[nodiscard]] std::int64_t reach() const noexcept { return (taps - 1) * tokens; }
  [[nodiscard]] std::int64_t stand_in() const noexcept { return image > 0 ? image : end; }
};

/// The rows of the n-grams that end in a token: of the n-gram of n tokens, newest first, h = xor of token_i multiplier_i, and head k of it has row
/// h mod size_k + offset_k. before(i): the token i places before it, negative where there is none. rows: (all_heads()).
template <class Before>
void find_ngram_rows(const NgramOptions& o, std::int64_t token, Before&& before, std::span<std::int64_t> rows) noexcept {
  BANTAM_ASSERT(std::ssize(rows) == o.all_heads());
  std::uint64_t hash = static_cast<std::uint64_t>(token) * o.multipliers[0];
  bool cut = false;
  std::size_t at = 0;
  for (std::int64_t n = 2; n <= o.tokens; ++n) {
    // Whatever an end of text is behind of, belongs to another.
    const std::int64_t earlier = cut ? o.end : before(n - 1);
    cut = cut || earlier < 0 || earlier == o.end;
    hash ^= static_cast<std::uint64_t>(cut ? o.end : earlier) * o.multipliers[static_cast<std::size_t>(n - 1)];
    for (std::int64_t head = 0; head < o.heads; ++head, ++at) rows[at] = static_cast<std::int64_t>(hash % static_cast<std::uint64_t>(o.sizes[at])) + o.offsets[at];
  }
}

}  // namespace bantam::inline v0::nn
