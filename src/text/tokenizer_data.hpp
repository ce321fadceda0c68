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
#include "bantam/core/memory.hpp"
#include "text/literals.hpp"
#include "text/merges.hpp"
#include "text/normalizer.hpp"
#include "text/piece_index.hpp"
#include "text/pre_tokenizer.hpp"
#include "text/spec.hpp"
#include "text/token_decoder.hpp"
#include "text/unigram.hpp"
#include "text/wordpiece.hpp"

namespace bantam::inline v0 {

/// Which pairs of characters stand next to each other in any piece that merging can make. Between two that do not,
/// a text can be cut without changing a token: this is what makes SentencePiece's one huge pre-token cheap.
class Neighbors {
 public:
  void add(std::uint32_t left, std::uint32_t right);
  /// Every pair of a piece.
  void add(std::string_view piece);
  [[nodiscard]] bool has(std::uint32_t left, std::uint32_t right) const noexcept {
    return left < 128 && right < 128 ? ascii_[left * 128 + right] : others_[slot_of(pair_of(left, right))] != 0;
  }

 private:
  /// Never 0: one of the two is beyond ASCII.
  static std::uint64_t pair_of(std::uint32_t left, std::uint32_t right) noexcept { return std::uint64_t{left} << 32 | right; }
  /// Where a pair is, or would be.
  [[nodiscard]] std::size_t slot_of(std::uint64_t pair) const noexcept {
    const std::size_t mask = others_.size() - 1;
    std::size_t at = hash_(pair) & mask;
    while (others_[at] != 0 && others_[at] != pair) at = (at + 1) & mask;
    return at;
  }

  KeyedHash hash_;
  std::bitset<128 * 128> ascii_;
  std::vector<std::uint64_t> others_ = std::vector<std::uint64_t>(64);  ///< pairs by hash, half of the slots at most; 0: free
  std::size_t count_ = 0;
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

/// What each token stands for, one after the other.
struct DecodedTokens {
  LargeVector<char> bytes;
  LargeVector<std::uint32_t> begins;  ///< one entry more than tokens

  [[nodiscard]] std::string_view of(TokenId id) const noexcept {
    const auto i = static_cast<std::size_t>(id);
    return {bytes.data() + begins[i], begins[i + 1] - begins[i]};
  }
};

/// How pre-tokens become tokens.
enum class TokenModel : std::uint8_t { merges, unigram, wordpiece, wordlevel };

struct Tokenizer::Data {
  TokenizerSpec spec;
  TokenModel model = TokenModel::merges;
  PieceIndex index;  ///< by spelling; of pieces that spell the same the last
  PieceIndex whole;  ///< for ignore_merges, by bytes or, where those are no spelling, as `index`
  MergeTable merges;
  Unigram unigram;
  WordPiece wordpiece;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  /// Added tokens, as indices into spec.added: in the caller's text and in the normalized one; with the special ones
  /// and without.
  Literals raw_all, raw_plain, normalized_all, normalized_plain;
  std::array<Symbol, 256> byte_tokens{};  ///< byte-level: the symbol of a byte; else its byte token or no_symbol
  CharSymbols characters;
  std::vector<std::string> extra;  ///< the characters of symbols from vocab_size on
  Neighbors neighbors;
  TokenDecoder decoder;
  DecodedTokens decoded;  ///< within a text, with the spelling of special ones
  std::vector<bool> special, ends;
  std::vector<bool> outside;  ///< found in the text or nowhere: no piece of the model

  /// The token of a piece; PieceIndex::none for what is none.
  [[nodiscard]] TokenId id_of(std::string_view piece) const { return index.find(piece, spec.pieces); }
  /// The token that a whole pre-token is, without merging.
  [[nodiscard]] TokenId id_of_whole(std::string_view text) const {
    if (!spec.byte_level) return whole.find(text, spec.pieces);
    return whole.find(text, [this](TokenId id) { return bytes_of(id); });
  }
  /// Whether characters that nothing can stand for vanish, so that their neighbors meet.
  [[nodiscard]] bool loses_characters() const noexcept { return !spec.byte_level && spec.unknown < 0 && !spec.byte_fallback; }
  /// Whether characters are other pieces where a word begins or ends.
  [[nodiscard]] bool marks_words() const noexcept { return model == TokenModel::merges && (!spec.continuing.empty() || !spec.word_end.empty()); }
  /// What a token gives; special ones nothing.
  [[nodiscard]] std::string_view bytes_of(TokenId id) const noexcept {
    return special[static_cast<std::size_t>(id)] ? std::string_view() : decoded.of(id);
  }
  /// What any token gives where it stands, special ones as they are spelled: where it begins a text, without the space that encoding put there.
  [[nodiscard]] std::string text_of(TokenId id, TokenPosition at) const;
  /// Whether a token that gave `text` at the beginning leaves it to the next one to begin the text.
  [[nodiscard]] bool begins_nothing(TokenId id, std::string_view text) const noexcept {
    return decoded.of(id).empty() || (spec.decode.strip == DecodeSpec::strip_all && text.empty());
  }
  /// How many bytes at the end of a text decoding drops, if the text ends here.
  [[nodiscard]] std::size_t dropped_at_end(std::string_view text) const noexcept {
    std::size_t dropped = 0;
    for (std::uint32_t n = 0; n < spec.decode.strip_end && text.ends_with(spec.decode.strip_of); ++n) {
      text.remove_suffix(spec.decode.strip_of.size());
      dropped += spec.decode.strip_of.size();
    }
    return dropped;
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
