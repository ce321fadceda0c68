// What reads each kind of file into a tokenizer's specification.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bantam/core/team.hpp"
#include "io/json_rows.hpp"
#include "text/json.hpp"
#include "text/piece_index.hpp"
#include "text/spec.hpp"

namespace bantam::inline v0 {

struct ReadTokenizer {
  TokenizerSpec spec;
  PieceIndex index = {};  ///< of the pieces, where their reader needed one
};
/// From so many bytes on the long lists of a text are read without a tree, on two threads, which costs more than reading a short one.
inline constexpr std::size_t long_json = std::size_t{1} << 20;
/// A tokenizer.json (Hugging Face tokenizers). Throws corrupt, unsupported.
[[nodiscard]] ReadTokenizer read_tokenizer_json(std::string_view text, std::string_view place, std::size_t long_from = long_json);
/// A tokenizer.model (SentencePiece). Throws corrupt, unsupported.
[[nodiscard]] TokenizerSpec spec_from_sentencepiece(std::string_view bytes, std::string_view place);
/// A list of tiktoken's: a token in base64 and its rank a line.
/// Throws corrupt, unsupported.
[[nodiscard]] TokenizerSpec spec_from_tiktoken(std::string_view text, std::string_view place);
/// Of a BERT model's pieces as GGUF spells them, U+2581 before what begins a word and nothing before what goes on: as tokenizer.json does, nothing and "##".
void spell_as_bert(TokenizerSpec& spec);
/// The tokenizer.ggml.* keys. Throws corrupt, unsupported, not_found.
[[nodiscard]] TokenizerSpec spec_from_gguf(const GgufFile& file);
/// The JSON of native files, and back.
[[nodiscard]] TokenizerSpec spec_from_native_json(std::string_view text, std::string_view place);
[[nodiscard]] std::string native_json(const TokenizerSpec& spec);

/// tokenizer_config.json, special_tokens_map.json, added_tokens.json and chat_template.jinja of a folder, where present,
/// applied to what the tokenizer file gave. `sentencepiece`: added tokens come from these files.
void apply_folder(const std::filesystem::path& folder, TokenizerSpec& spec, bool sentencepiece);

/// Ids may have gaps (tokens taken out), but an id far beyond the number of entries is no vocabulary's.
[[nodiscard]] std::size_t most_vocabulary_ids(std::size_t entries);

/// The long lists of a tokenizer.json that were read without a tree, in which they are elsewhere.
struct LongLists {
  JsonRows vocab, merges;
  // What members of `vocab` give.
  PieceList pieces;
  std::vector<TokenType> types;
  PieceIndex index;
};
/// Reads a tokenizer.json whole: long lists without a tree, unless they are odd, and all else with one.
[[nodiscard]] Json read_long_json(std::string_view text, std::string_view place, LongLists& lists);

/// Parts of a tokenizer.json; `place` names the file and the member.
/// Returns an index of the pieces.
[[nodiscard]] PieceIndex read_model(const Json& json, LongLists& lists, TokenizerSpec& spec, std::string_view place);
/// The two parts of a merge, by its number; nothing where the file has no two there.
using MergeParts = FunctionRef<std::optional<std::pair<std::string_view, std::string_view>>(std::size_t)>;
/// Sets the merges of a vocabulary, whose pieces `index` has, from how a file spells their parts. Throws corrupt for the first that is none: `spelled` says it whole.
void read_merge_list(TokenizerSpec& spec, const PieceIndex& index, std::size_t count, MergeParts parts_of, FunctionRef<std::string(std::size_t)> spelled, std::string_view place);
void read_normalizer(const Json& json, TokenizerSpec& spec, std::string_view place);
void read_pre_tokenizer(const Json& json, TokenizerSpec& spec, std::string_view place);
/// Null where the file has none: texts are then words with spaces between them.
void read_decoder(const Json* json, TokenizerSpec& spec, std::string_view place);
/// White space goes, punctuation stands alone.
[[nodiscard]] std::vector<PreTokenizerStep> bert_pre_tokenizer();
void read_post_processor(const Json& json, TokenizerSpec& spec, std::string_view place);

/// Sets `id` apart as a token that the text may spell: a new piece right after the vocabulary, or an existing one.
/// Throws corrupt when the id has another piece already.
void add_token(TokenizerSpec& spec, const AddedToken& token, std::string_view content, std::string_view place);

/// BOS and EOS by the spellings of well-known models, where the files name none.
void guess_bos_and_eos(TokenizerSpec& spec);
/// Whether encoding adds BOS first / EOS last.
void set_adds_bos(TokenizerSpec& spec, bool adds);
void set_adds_eos(TokenizerSpec& spec, bool adds);

}  // namespace bantam::inline v0
