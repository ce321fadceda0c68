// What a tokenizer looks things up in: built once from a specification, then immutable and shared.
#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/core/hash.hpp"
#include "text/literals.hpp"
#include "text/merges.hpp"
#include "text/normalizer.hpp"
#include "text/pre_tokenizer.hpp"
#include "text/spec.hpp"

namespace bantam::inline v0 {

/// Which pairs of characters stand next to each other in any piece that merging can make. Between two that do not,
/// a text can be cut without changing a token: this is what makes SentencePiece's one huge pre-token cheap.
class Neighbors {
 public:
  void add(std::string_view piece);
  [[nodiscard]] bool has(std::uint32_t left, std::uint32_t right) const noexcept {
    if (left < 128 && right < 128) return ascii_[left * 128 + right];
    return others_.contains(std::uint64_t{left} << 32 | right);
  }

 private:
  std::bitset<128 * 128> ascii_;
  HashSet<std::uint64_t> others_;
};

/// The symbol of each character, of those that have one.
class CharSymbols {
 public:
  CharSymbols() { low_.fill(no_symbol); }
  void set(std::uint32_t code, Symbol symbol);
  [[nodiscard]] Symbol get(std::uint32_t code) const noexcept;

 private:
  std::array<Symbol, 128> low_{};
  HashMap<std::uint32_t, Symbol> high_;
};

struct Tokenizer::Data {
  TokenizerSpec spec;
  HashMap<std::string_view, TokenId> index;  ///< by spelling; views into spec.pieces
  HashMap<std::string_view, TokenId> whole;  ///< by bytes, for ignore_merges; views into `bytes`
  MergeTable merges;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  /// Added tokens, as indices into spec.added: in the caller's text and in the normalized one; with the special ones
  /// and without.
  Literals raw_all, raw_plain, normalized_all, normalized_plain;
  std::array<Symbol, 256> byte_tokens{};  ///< byte-level: the symbol of a byte; else its byte token or no_symbol
  bool has_all_bytes = false;             ///< byte_fallback can be done
  CharSymbols characters;
  std::vector<std::string> extra;  ///< the characters of symbols from vocab_size on
  Neighbors neighbors;
  std::string bytes;  ///< what each token stands for, one after the other; `begins` has one entry more than tokens
  std::vector<std::uint32_t> begins;
  std::vector<bool> special, ends;

  [[nodiscard]] std::string_view bytes_of(TokenId id) const noexcept {
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(bytes).substr(begins[i], begins[i + 1] - begins[i]);
  }
  /// The same where the token begins a text: without the space that encoding put there.
  [[nodiscard]] std::string_view first_bytes_of(TokenId id) const noexcept {
    std::string_view text = bytes_of(id);
    for (std::uint32_t n = 0; n < spec.decode_strip && text.starts_with(' '); ++n) text.remove_prefix(1);
    return text;
  }
  /// Throws invalid_argument for an id outside the vocabulary.
  void check(TokenId id) const;
};

/// The tokens of `text`, without BOS and EOS. Throws invalid_argument above 2 GiB, corrupt for expressions that
/// take too long.
[[nodiscard]] std::vector<TokenId> encode_text(const Tokenizer::Data& data, std::string_view text, bool parse_special);

/// The byte that a piece "<0xNN>" stands for, or -1.
[[nodiscard]] int byte_of_piece(std::string_view piece) noexcept;

}  // namespace bantam::inline v0
