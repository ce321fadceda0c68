// Text to token ids and back: BPE, unigram, WordPiece, whatever file they come from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bantam::inline v0 {

class GgufFile;
class GgufWriter;

using TokenId = std::int32_t;

/// How encode treats special tokens.
struct EncodeOptions {
  bool add_special = true;     ///< add BOS/EOS as the tokenizer's own files say
  bool parse_special = false;  ///< text that spells a special token becomes that token; off: text is text
  std::size_t longest = 0;     ///< tokens at most, those that are added among them: the end of the text is left out; 0: any number
};

/// Two texts as one sequence.
struct TokenPair {
  std::vector<TokenId> ids;
  std::vector<std::uint8_t> types;  ///< of each token: 1 for those of the second text, where the tokenizer tells the two apart so
};

/// What a token is. The values are those of SentencePiece and GGUF, and stand in native files: never reuse one.
enum class TokenType : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// A tokenizer: immutable, shared, safe to use from any number of threads. Copying is cheap.
class Tokenizer {
 public:
  /// From a Hugging Face folder: tokenizer.json, else tokenizer.model, else a tiktoken file; tokenizer_config.json and
  /// special_tokens_map.json where present. Throws not_found, corrupt, unsupported.
  [[nodiscard]] static Tokenizer from_folder(const std::filesystem::path& folder);
  /// From one file: tokenizer.json, SentencePiece tokenizer.model or a list of tiktoken's ranks, told apart by content.
  [[nodiscard]] static Tokenizer from_file(const std::filesystem::path& file);
  /// From the tokenizer.ggml.* keys of a GGUF file.
  [[nodiscard]] static Tokenizer from_gguf(const GgufFile& file);
  /// From what to_json() wrote: how native files carry their tokenizer.
  [[nodiscard]] static Tokenizer from_json(std::string_view json, std::string_view place);
  [[nodiscard]] std::string to_json() const;
  /// Writes tokenizer.json and tokenizer_config.json, as Hugging Face's loaders read them, into an existing folder. Each
  /// file is complete or absent. Throws io, and unsupported for steps that those files have no words for.
  void write_folder(const std::filesystem::path& folder) const;
  /// Adds the tokenizer.ggml.* keys, with a piece for each of `vocab` rows of the embedding. Throws unsupported for steps
  /// that GGUF has no words for.
  void write_gguf(GgufWriter& file, std::int64_t vocab) const;

  /// Time linear (times log) in the text, whatever the text. Invalid UTF-8 never throws: bytes fall back to byte
  /// tokens, or to the unknown token where the vocabulary has none.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;
  /// Two texts as the tokenizer's files say that a pair is read ("[CLS] first [SEP] second [SEP]"). `options.longest` leaves out the end of the
  /// second, and of the first where that is not enough.
  [[nodiscard]] TokenPair encode_pair(std::string_view first, std::string_view second, EncodeOptions options = {}) const;
  /// The text of the ids; special (control) tokens give nothing unless `keep_special`. Always valid UTF-8: bytes that
  /// do not make a character become U+FFFD. Throws invalid_argument for an id outside the vocabulary.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool keep_special = false) const;
  /// The raw bytes that one token stands for when it is not the first of its text (may be part of a character).
  [[nodiscard]] std::string piece_bytes(TokenId id) const;
  /// The same where the token begins a text: SentencePiece drops the space that encoding put there.
  [[nodiscard]] std::string first_piece_bytes(TokenId id) const;
  /// The token as its vocabulary spells it ("▁the", "<0x0A>", "Ġthe"), with a zero byte behind it, as long as there is a copy of the tokenizer.
  [[nodiscard]] std::string_view piece(TokenId id) const;
  /// Throws invalid_argument for an id outside the vocabulary, like piece().
  [[nodiscard]] TokenType type(TokenId id) const;
  /// SentencePiece's, by which pieces are merged or, log probabilities, chosen; 0 where the vocabulary has none.
  [[nodiscard]] float score(TokenId id) const;
  /// The id of a vocabulary entry, -1 when there is none.
  [[nodiscard]] TokenId find(std::string_view piece) const noexcept;

  [[nodiscard]] std::int32_t vocab_size() const noexcept;
  [[nodiscard]] TokenId bos() const noexcept;      ///< -1 when there is none
  [[nodiscard]] TokenId eos() const noexcept;      ///< -1 when there is none
  [[nodiscard]] TokenId unknown() const noexcept;  ///< -1 when there is none
  [[nodiscard]] bool adds_bos() const noexcept;
  [[nodiscard]] bool is_special(TokenId id) const noexcept;
  /// Every token that ends a turn: EOS, and well-known ones such as <|eot_id|> and <|im_end|> where present as control tokens.
  [[nodiscard]] bool ends_generation(TokenId id) const noexcept;
  /// "spm", "bpe", "unigram", "wordpiece" or "wordlevel", and the pre-tokenizer ("bpe llama-3"), for people.
  [[nodiscard]] std::string kind() const;
  /// The model's chat template (Jinja), empty when its files have none.
  [[nodiscard]] const std::string& chat_template() const noexcept;

  struct Data;  ///< private

 private:
  friend class TextStream;
  explicit Tokenizer(std::shared_ptr<const Data> data);
  std::shared_ptr<const Data> data_;
};

/// Decodes a stream of tokens into pieces of valid UTF-8: a character split over tokens is held back until whole.
class TextStream {
 public:
  /// `first` says that the next token begins a text (SentencePiece then drops the leading space of the whole text).
  /// Special tokens give nothing, but for those of `spelled`.
  explicit TextStream(const Tokenizer& tokenizer, bool first = false, std::vector<TokenId> spelled = {});
  /// The text that became complete with this token; may be empty.
  [[nodiscard]] std::string push(TokenId id);
  /// What is left at the end: an unfinished character becomes U+FFFD.
  [[nodiscard]] std::string finish();

 private:
  Tokenizer tokenizer_;
  std::vector<TokenId> spelled_;  ///< sorted
  std::string held_;
  TokenId before_ = -1;
  bool first_;
};

}  // namespace bantam::inline v0
