// What rows of a pass see where an indexer chose it, and the few tokens that were chosen of many, brought together.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "bantam/core/memory.hpp"
#include "bantam/kernels/table.hpp"

namespace bantam::inline v0::nn {

/// Which tokens rows of a pass see, of those that they may: of each row a bit for each token of its sequence, pages in order, the first of a page lowest.
struct ChosenTokens {
  const std::uint64_t* pages = nullptr;  ///< (rows, stride)
  std::int64_t stride = 0;
};

/// What rows of a pass saw, for a layer that is run later, in a pass of its own; nothing where they saw all.
struct KeptChoice {
  std::vector<std::uint64_t> pages;  ///< ChosenTokens::pages
  std::int64_t stride = 0;
};

/// For each of a few rows, the tokens that it sees of neighboring pages, side by side in a page of floats: what attention does then is in proportion to them.
class GatheredPages {
 public:
  /// Of `rows` rows, keys of `key_dim` numbers and values of `value_dim`, multiples of 16.
  void resize(std::int64_t rows, std::int64_t key_dim, std::int64_t value_dim) {
    key_dim_ = key_dim;
    value_dim_ = value_dim;
    counts_.assign(static_cast<std::size_t>(rows), 0);
    keys_.ensure(static_cast<std::size_t>(rows * key_dim * page_tokens));
    values_.ensure(static_cast<std::size_t>(rows * page_tokens * value_dim));
  }
  [[nodiscard]] int count(std::int64_t row) const noexcept { return counts_[static_cast<std::size_t>(row)]; }
  void clear(std::int64_t row) noexcept { counts_[static_cast<std::size_t>(row)] = 0; }
  [[nodiscard]] const float* keys(std::int64_t row) const noexcept { return keys_.data() + row * key_dim_ * page_tokens; }
  [[nodiscard]] const float* values(std::int64_t row) const noexcept { return values_.data() + row * page_tokens * value_dim_; }

  /// Adds the tokens of a page, (key_dim, 64) and (64, value_dim), whose bits are set; values null: the keys' numbers from `shift` on. Calls full(row) whenever the row
  /// has 64, which is to make room.
  template <class F>
  void add(std::int64_t row, std::uint64_t tokens, const float* keys, const float* values, std::int64_t shift, F&& full) noexcept {
    int& count = counts_[static_cast<std::size_t>(row)];
    float *const to_keys = keys_.data() + row * key_dim_ * page_tokens, *const to_values = values_.data() + row * page_tokens * value_dim_;
    for (; tokens != 0; tokens &= tokens - 1) {
      const int token = std::countr_zero(tokens);
      for (std::int64_t i = 0; i < key_dim_; ++i) to_keys[i * page_tokens + count] = keys[i * page_tokens + token];
      float* const value = to_values + count * value_dim_;
      if (values != nullptr) std::copy_n(values + token * value_dim_, value_dim_, value);
      // What pads values is behind keys, or other numbers of theirs, which nobody reads.
      for (std::int64_t i = 0; values == nullptr && i < value_dim_; ++i) value[i] = shift + i < key_dim_ ? keys[(shift + i) * page_tokens + token] : 0.0f;
      if (++count == page_tokens) full(row);
    }
  }

 private:
  std::int64_t key_dim_ = 0, value_dim_ = 0;
  std::vector<int> counts_;
  AlignedBuffer<float> keys_;    ///< (rows, key_dim, 64)
  AlignedBuffer<float> values_;  ///< (rows, 64, value_dim)
};

}  // namespace bantam::inline v0::nn
