// Reads the tokenizer.ggml.* keys of GGUF files.
#include <algorithm>
#include <iterator>
#include <limits>

#include "bantam/core/error.hpp"
#include "bantam/io/gguf.hpp"
#include "text/base64.hpp"
#include "text/loaders.hpp"
#include "text/tokenizer_data.hpp"

namespace bantam::inline v0 {

namespace {

/// Converters give this score to tokens that a model's users added; SentencePiece's own user-defined symbols have 0.
constexpr float score_of_added = -1000;

struct Source {
  const GgufFile& file;
  std::string place;

  [[nodiscard]] std::string key(std::string_view name) const { return message("tokenizer.ggml.", name); }
  [[nodiscard]] TokenId id(std::string_view name, TokenId otherwise) const {
    const auto value = file.integer(key(name));
    if (!value) return otherwise;
    // 2^32 - 1 is how some converters write "none".
    if (*value == -1 || *value == 0xffffffff) return -1;
    if (*value < 0 || *value > 0x7fffffff) fail(Errc::corrupt, place, ": ", key(name), ": expected a token id, found ", *value);
    return static_cast<TokenId>(*value);
  }
};

void read_types(const Source& source, TokenizerSpec& spec) {
  spec.types.assign(spec.pieces.size(), TokenType::normal);
  const auto* types = source.file.integers(source.key("token_type"));
  if (!types) return;
  if (types->size() != spec.pieces.size()) {
    fail(Errc::corrupt, source.place, ": tokenizer.ggml.token_type: expected ", spec.pieces.size(), " values, found ", types->size());
  }
  for (std::size_t i = 0; i < types->size(); ++i) {
    const std::int64_t type = (*types)[i];
    if (type < 0 || type > 6) fail(Errc::corrupt, source.place, ": tokenizer.ggml.token_type[", i, "]: expected 0 to 6, found ", type);
    if (type != 0) spec.types[i] = static_cast<TokenType>(type);
  }
}

void read_scores(const Source& source, TokenizerSpec& spec) {
  const auto* scores = source.file.numbers(source.key("scores"));
  if (!scores) fail(Errc::corrupt, source.place, ": expected tokenizer.ggml.scores, found none");
  if (scores->size() != spec.pieces.size()) {
    fail(Errc::corrupt, source.place, ": tokenizer.ggml.scores: expected ", spec.pieces.size(), " values, found ", scores->size());
  }
  spec.scores.assign(scores->begin(), scores->end());
}

void read_merges(const Source& source, TokenizerSpec& spec) {
  const auto* merges = source.file.texts(source.key("merges"));
  if (!merges && spec.pre == "kimi-k2") {
    // Its converter left them out for a time. As in tiktoken's files the order of ids is that of merges.
    for (std::size_t i = 0; i < spec.pieces.size(); ++i) spec.scores.push_back(-static_cast<double>(i));
    return;
  }
  if (!merges) fail(Errc::corrupt, source.place, ": expected tokenizer.ggml.merges, found none");
  const auto parts_of = [&](std::size_t i) -> std::optional<std::pair<std::string_view, std::string_view>> {
    const std::string_view text = (*merges)[i];
    const std::size_t space = text.find(' ', 1);
    if (space == std::string_view::npos) return std::nullopt;
    return std::pair(text.substr(0, space), text.substr(space + 1));
  };
  read_merge_list(spec, index_of(spec.pieces), merges->size(), parts_of, [&](std::size_t i) { return std::string((*merges)[i]); }, message(source.place, ": tokenizer.ggml.merges"));
}

void list_added(TokenizerSpec& spec) {
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (spec.pieces[i].empty()) continue;
    if (spec.types[i] == TokenType::control || spec.types[i] == TokenType::unknown) spec.added.push_back({.id = id, .special = true});
    if (spec.types[i] != TokenType::user_defined) continue;
    // A symbol of SentencePiece's own stands in the normalized text and begins no new one after it.
    const bool own = !spec.scores.empty() && spec.scores[i] > score_of_added;
    spec.added.push_back({.id = id, .normalized = own, .verbatim = own});
  }
}

/// What SentencePiece does to spaces.
void read_spaces(const Source& source, TokenizerSpec& spec) {
  using Kind = NormalizerStep::Kind;
  if (source.file.boolean(source.key("remove_extra_whitespaces")).value_or(false)) {
    spec.normalizer.push_back({.kind = Kind::collapse_spaces, .pattern = {}, .content = {}});
  }
  if (source.file.boolean(source.key("add_space_prefix")).value_or(true)) {
    spec.normalizer.push_back({.kind = Kind::prepend, .pattern = {}, .content = std::string(low_line)});
    spec.decode.strip = 1;
  }
  spec.normalizer.push_back({.kind = Kind::replace, .pattern = " ", .content = std::string(low_line)});
  spec.decode.replace.push_back({std::string(low_line), " "});
}

void read_sentencepiece(const Source& source, TokenizerSpec& spec) {
  spec.kind = "spm";
  spec.fuse_unknown = true;
  spec.byte_fallback = std::ranges::count(spec.types, TokenType::byte) > 0;
  read_scores(source, spec);
  read_spaces(source, spec);
}

/// Returns whether the family adds BOS where the file does not say.
bool read_byte_level(const Source& source, TokenizerSpec& spec) {
  const std::string* pre = source.file.text(source.key("pre"));
  const KnownPreTokenizer* known = find_pre_tokenizer(pre ? *pre : std::string_view{});
  if (!known) {
    fail(Errc::unsupported, source.place, ": tokenizer.ggml.pre: pre-tokenizer ", printable(*pre), " is not supported yet");
  }
  spec.kind = "bpe";
  spec.pre = known->name;
  spec.byte_level = true;
  spec.ignore_merges = known->ignore_merges;
  spec.pre_tokenizer = known->steps;
  read_merges(source, spec);
  return known->adds_bos;
}

/// Merges of characters with SentencePiece's spaces, and bytes for what has no piece.
void read_gemma(const Source& source, TokenizerSpec& spec) {
  spec.kind = "spm";
  spec.fuse_unknown = true;
  spec.byte_fallback = true;
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    if (byte_of_piece(spec.pieces[i]) >= 0) spec.types[i] = TokenType::byte;
  }
  spec.normalizer.push_back({.kind = NormalizerStep::Kind::replace, .pattern = " ", .content = std::string(low_line)});
  spec.decode.replace.push_back({std::string(low_line), " "});
  read_merges(source, spec);
}

/// T5 and others: SentencePiece's unigram model with its character map.
void read_unigram(const Source& source, TokenizerSpec& spec) {
  using Kind = NormalizerStep::Kind;
  spec.kind = "unigram";
  spec.fuse_unknown = true;
  spec.byte_fallback = std::ranges::count(spec.types, TokenType::byte) > 0;
  read_scores(source, spec);
  double lowest = std::numeric_limits<float>::max();
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    if (spec.types[i] == TokenType::normal) lowest = std::min(lowest, spec.scores[i]);
  }
  spec.unknown_score = lowest - Unigram::unknown_penalty;
  if (const auto* map = source.file.integers(source.key("precompiled_charsmap"))) {
    std::string bytes;
    for (const std::int64_t byte : *map) bytes += static_cast<char>(static_cast<unsigned char>(byte & 0xff));
    if (!bytes.empty()) spec.normalizer.push_back({.kind = Kind::charsmap, .pattern = {}, .content = base64_of(bytes)});
  }
  read_spaces(source, spec);
}

void read_wordpiece(const Source& source, TokenizerSpec& spec) {
  using Kind = NormalizerStep::Kind;
  spec.kind = "wordpiece";
  spell_as_bert(spec);
  const bool lowercase = source.file.boolean(source.key("normalizer.lowercase")).value_or(true);
  const bool strips = source.file.boolean(source.key("normalizer.strip_accents")).value_or(lowercase);
  const auto add = [&](Kind kind) { spec.normalizer.push_back({.kind = kind, .pattern = {}, .content = {}}); };
  add(Kind::clean);
  add(Kind::space_ideographs);
  if (strips) {
    add(Kind::nfd);
    add(Kind::drop_nonspacing);
  }
  if (lowercase) add(Kind::lowercase);
  spec.pre_tokenizer = bert_pre_tokenizer();
}

/// How each tokenizer.ggml.model is read, and the ids and habits that files need not mention.
struct GgufModel {
  std::string_view name;
  TokenId bos, eos, unknown;
  bool adds_bos, adds_eos;
};
constexpr GgufModel gguf_models[] = {
    {"llama", 1, 2, 0, true, false}, {"gpt2", -1, -1, -1, false, false}, {"gemma4", -1, -1, -1, true, false},
    {"t5", -1, 1, 2, false, true},   {"bert", 101, -1, 100, true, false}};

}  // namespace

void spell_as_bert(TokenizerSpec& spec) {
  spec.continuing = "##";
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    const std::string_view piece = spec.pieces[i];
    if (spec.types[i] != TokenType::normal || piece.empty() || piece == low_line) continue;
    // Older files mark no special token, and do not say which are.
    const bool is_special = piece.size() > 2 && piece.front() == '[' && piece.back() == ']';
    if (piece.starts_with(low_line)) {
      spec.pieces.set(i, std::string(piece.substr(low_line.size())));
    } else if (!is_special) {
      spec.pieces.set(i, message(spec.continuing, piece));
    }
  }
  spec.decode = {};
  spec.decode.join = spec.decode.cleanup = true;
  spec.decode.continuing = spec.continuing;
}

TokenizerSpec spec_from_gguf(const GgufFile& file) {
  const Source source{file, printable(file.path().string(), 200)};
  const std::string* model = file.text(source.key("model"));
  const auto* tokens = file.texts(source.key("tokens"));
  if (!model || !tokens) {
    fail(Errc::not_found, source.place, ": expected ", source.key(model ? "tokens" : "model"), ", found none");
  }
  TokenizerSpec spec;
  spec.pieces = PieceList(*tokens);
  read_types(source, spec);
  const auto found = std::ranges::find(gguf_models, std::string_view(*model), &GgufModel::name);
  if (found == std::end(gguf_models)) {
    fail(Errc::unsupported, source.place, ": tokenizer.ggml.model: ", printable(*model), " is not supported yet, expected llama, gpt2, t5, bert or gemma4");
  }
  GgufModel usual = *found;
  const std::string* pre = source.file.text(source.key("pre"));
  if (usual.name == "llama") {
    read_sentencepiece(source, spec);
  } else if (usual.name == "t5") {
    read_unigram(source, spec);
  } else if (usual.name == "bert") {
    read_wordpiece(source, spec);
  } else if (usual.name == "gemma4" || (pre && (*pre == "gemma4" || *pre == "granite-embed-multi-311m" || *pre == "sarvam-moe"))) {
    read_gemma(source, spec);
  } else {
    usual.adds_bos = read_byte_level(source, spec);
  }
  const auto n = static_cast<TokenId>(std::min<std::size_t>(spec.pieces.size(), 0x7fffffff));
  const auto within = [&](TokenId id) { return id < n ? id : -1; };
  spec.bos = source.id("bos_token_id", source.id("cls_token_id", within(usual.bos)));
  spec.eos = source.id("eos_token_id", within(usual.eos));
  spec.unknown = source.id("unknown_token_id", within(usual.unknown));
  for (const char* name : {"eot_token_id", "eom_token_id"}) {
    if (const TokenId id = source.id(name, -1); id >= 0) spec.ends.push_back(id);
  }
  for (const TokenId id : {spec.bos, spec.eos}) {
    if (id >= n) fail(Errc::corrupt, source.place, ": bos or eos is token ", id, ", the vocabulary has ", n);
  }
  set_adds_bos(spec, source.file.boolean(source.key("add_bos_token")).value_or(usual.adds_bos));
  set_adds_eos(spec, source.file.boolean(source.key("add_eos_token")).value_or(usual.adds_eos));
  // The key is spelled so in GGUF.
  const TokenId separator = source.id("seperator_token_id", usual.name == "bert" ? within(102) : -1);
  const bool separates = source.file.boolean(source.key("add_sep_token")).value_or(usual.name == "bert");
  if (separates && separator >= 0 && (spec.suffix.empty() || spec.suffix.back() != separator)) spec.suffix.push_back(separator);
  if (!spec.suffix.empty()) {
    // RoBERTa's kind ends a text with </s> and separates two by another.
    const bool twice = separator >= 0 && separator < n && spec.suffix.back() == separator && spec.pieces[static_cast<std::size_t>(separator)] == "</s>";
    spec.between = spec.suffix;
    if (twice) spec.between.push_back(separator);
    spec.pair_suffix = spec.suffix;
    spec.types_pairs = usual.name == "bert";
  }
  list_added(spec);
  add_known_ends(spec);
  if (const std::string* text = file.text("tokenizer.chat_template")) spec.chat_template = *text;
  return spec;
}

}  // namespace bantam::inline v0
