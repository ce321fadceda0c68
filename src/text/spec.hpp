// A tokenizer as data: what every file format is read into, what native files carry, what an encoder is built from.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bantam/core/memory.hpp"
#include "bantam/text/tokenizer.hpp"
#include "text/piece_index.hpp"
#include "text/piece_list.hpp"

namespace bantam::inline v0 {

/// What SentencePiece writes for a space: U+2581.
inline constexpr std::string_view low_line = "\xe2\x96\x81";

/// A token found in the text before anything else looks at it.
struct AddedToken {
  TokenId id = -1;
  bool special = false;      ///< only when the caller asks for it
  bool normalized = false;   ///< found in the normalized text
  bool verbatim = false;     ///< normalized, but its own spelling is not put through the normalizer (SentencePiece)
  bool left_space = false;   ///< takes the white space before it
  bool right_space = false;  ///< takes the white space after it
  bool single_word = false;  ///< only between characters that make no words
};

/// One step of changing the text.
struct NormalizerStep {
  enum class Kind : std::uint8_t {
    prepend = 1, replace = 2, replace_regex = 3, nfc = 4, nfd = 5, nfkc = 6, nfkd = 7, strip = 8, lowercase = 9, collapse_spaces = 10,
    clean = 11,              ///< BERT: control characters go, white space becomes spaces
    space_ideographs = 12,   ///< BERT: spaces around each Chinese character
    drop_marks = 13,         ///< all combining marks
    drop_nonspacing = 14,    ///< BERT: non-spacing marks
    nmt = 15,                ///< SentencePiece's "nmt": control characters go, invisible ones become spaces
    charsmap = 16,           ///< SentencePiece: the longest entry at each place
    grapheme_charsmap = 17,  ///< Hugging Face: the shortest entry at the beginning of each grapheme
    spell_bytes = 18,        ///< every byte in the byte alphabet
    append = 19,
  };
  static constexpr unsigned kinds = 19;
  Kind kind = Kind::nfc;
  std::string pattern;  ///< replace, replace_regex
  std::string content;  ///< prepend, append, replace, replace_regex; charsmaps: the map, base64
  bool left = true;     ///< strip
  bool right = true;    ///< strip
};

/// One step of cutting the text into pre-tokens.
struct PreTokenizerStep {
  enum class Kind : std::uint8_t { split = 1, split_literal = 2, metaspace = 3, prefix_space = 4 };
  enum class Behavior : std::uint8_t { isolated = 1, removed = 2, merged_with_previous = 3, merged_with_next = 4, contiguous = 5 };
  enum class Prepend : std::uint8_t { always = 1, never = 2, first = 3 };
  Kind kind = Kind::split;
  std::string pattern;  ///< an expression, a literal, or metaspace's replacement
  Behavior behavior = Behavior::isolated;
  bool invert = false;
  Prepend prepend = Prepend::always;  ///< metaspace
  bool cut = true;                    ///< metaspace: split before each replacement
};

/// One replacement in the piece of a token that is decoded.
struct DecodeReplace {
  enum class Where : std::uint8_t { everywhere = 0, first = 1, last = 2 };
  std::string pattern;
  std::string content;
  bool regex = false;
  Where where = Where::everywhere;  ///< else only in the token that begins a text, or in the one that ends it
};

/// How decoding joins tokens, besides putting their bytes one after the other.
struct DecodeSpec {
  std::vector<DecodeReplace> replace;  ///< in pieces, before their bytes are taken
  static constexpr std::uint32_t strip_all = 0x7fffffff;
  std::uint32_t strip = 0;             ///< so many `strip_of` are dropped where a text begins
  std::uint32_t strip_end = 0;         ///< and where it ends
  std::string strip_of = " ";          ///< one character
  bool join = false;                   ///< a space before each token but the first
  std::string continuing;              ///< join: tokens that begin with this lose it, and their space
  bool cleanup = false;                ///< no space before punctuation and English contractions
  bool collapse_repeats = false;       ///< equal tokens in a row count once (CTC)
};

struct TokenizerSpec {
  std::string kind;              ///< "spm", "bpe", "unigram", "wordpiece" or "wordlevel"
  std::string pre;               ///< name of the pre-tokenizer, may be empty
  bool byte_level = false;       ///< pieces are spelled in the byte alphabet, symbols are bytes
  bool spelled_bytes = false;    ///< pieces are spelled in the byte alphabet for decoding alone
  bool byte_fallback = false;    ///< characters without a piece become byte tokens
  bool fuse_unknown = false;     ///< a run of unknown characters is one unknown token
  bool ignore_merges = false;    ///< a pre-token that is a piece needs no merging
  std::string continuing;        ///< stands before what does not begin a word ("##")
  std::string word_end;          ///< stands after what ends a word ("</w>")
  std::uint32_t longest_word = 0;  ///< wordpiece: a word of more characters is unknown; 0: none is
  PieceList pieces;
  std::vector<TokenType> types;
  LargeVector<double> scores;    ///< empty, or one a piece: merges follow from them; unigram: log probabilities
  double unknown_score = 0;      ///< unigram: of a character that no piece covers
  LargeVector<std::array<TokenId, 3>> merges;  ///< left, right, merged; by rank
  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  DecodeSpec decode;
  TokenId bos = -1, eos = -1, unknown = -1;
  std::vector<TokenId> prefix, suffix;  ///< what add_special adds
  /// Of a pair of texts: what stands between them, and behind the second, in the place of `suffix` each. Known where files say it of texts
  /// that have something behind them; else empty.
  std::vector<TokenId> between, pair_suffix;
  bool types_pairs = false;             ///< the second text and what follows it are of type 1 (BERT)
  std::vector<TokenId> ends;            ///< ends a turn, besides eos
  std::string chat_template;
};

/// What a tokenizer's file may hold; more is refused. Each stands far above what published files have.
namespace limits {
/// Normalizer steps, pre-tokenizer steps, tokens around a text, each; real files have up to ten.
inline constexpr std::size_t tokenizer_steps = 256;
/// Replacements in decoded pieces, each of which reads the vocabulary once; real files have one.
inline constexpr std::size_t decode_replacements = 16;
/// 4 times the largest vocabulary known (256k).
inline constexpr std::size_t pieces = std::size_t{1} << 20;
/// Of a charsmap, base64; SentencePiece's largest (nfkc_cf) has 0.4 MB.
inline constexpr std::size_t charsmap_bytes = std::size_t{8} << 20;
/// Of unigram and wordpiece vocabularies, where a text costs up to this many steps a byte; real ones have up to 200.
inline constexpr std::size_t trie_piece_bytes = 1024;
/// Whitespace and rule pieces of real vocabularies have up to a few hundred bytes.
inline constexpr std::size_t piece_bytes = 64 * 1024;
/// Merges that scores stand for: real vocabularies have 2 to 3 a piece, the largest below a million.
inline constexpr std::size_t merges_a_piece = 8;
inline constexpr std::size_t merges_of_small = std::size_t{1} << 18;  ///< of vocabularies so small that they have fewer
}  // namespace limits

/// Checks a specification and builds the encoder. `place` names the file; `index`, of the pieces, saves time where there is one.
/// Throws corrupt, unsupported.
[[nodiscard]] std::shared_ptr<const Tokenizer::Data> build_tokenizer(TokenizerSpec spec, std::string_view place, PieceIndex index = {});

/// Adds the tokens that are known to end a turn (<|eot_id|>, <|im_end|>, ...) and are control tokens here to `ends`.
void add_known_ends(TokenizerSpec& spec);
/// These alone.
[[nodiscard]] std::vector<TokenId> known_ends(const TokenizerSpec& spec);

/// The steps of a pre-tokenizer by the name that GGUF files give it; empty when nothing here knows it.
struct KnownPreTokenizer {
  std::string_view name;
  bool ignore_merges = false;
  bool adds_bos = false;
  std::vector<PreTokenizerStep> steps;
};
[[nodiscard]] const KnownPreTokenizer* find_pre_tokenizer(std::string_view gguf_name);
/// The name of the family whose steps these are; empty when it is none of the known.
[[nodiscard]] std::string_view name_of_pre_tokenizer(const std::vector<PreTokenizerStep>& steps);
/// What GGUF files call the family with these steps and this habit; empty when it is none of the known.
[[nodiscard]] std::string_view gguf_name_of_pre_tokenizer(const std::vector<PreTokenizerStep>& steps, bool ignore_merges);

}  // namespace bantam::inline v0
