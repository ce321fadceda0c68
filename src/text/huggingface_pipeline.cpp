// Reads what surrounds the model in a tokenizer.json: normalizer, pre-tokenizer, decoder, post-processor.
#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "bantam/core/error.hpp"
#include "text/loaders.hpp"
#include "text/regex_dialect.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

namespace {

const Json& list_of(const Json& json, const char* key, std::string_view place) {
  const Json& list = need(json, key, place);
  expect(list.is_array(), message(place, ".", key), "an array", list);
  if (list.size() > limits::tokenizer_steps) fail(Errc::unsupported, place, ".", key, ": more than ", limits::tokenizer_steps, " steps");
  return list;
}

/// {"String": s} or {"Regex": s}.
std::pair<std::string, bool> read_pattern(const Json& json, std::string_view place) {
  const Json& pattern = need(json, "pattern", place);
  const std::string at = message(place, ".pattern");
  if (member(pattern, "String")) return {need_text(pattern, "String", at), false};
  return {need_text(pattern, "Regex", at), true};
}

/// One character of ASCII's or Unicode's.
constexpr std::string_view punctuation = "[!-/:-@\\[-`{-~\\p{P}]";

NormalizerStep read_strip(const Json& json, std::string_view place) {
  return {.kind = NormalizerStep::Kind::strip,
          .pattern = {},
          .content = {},
          .left = flag(json, "strip_left", true, place),
          .right = flag(json, "strip_right", true, place)};
}

PreTokenizerStep::Behavior read_behavior(const Json& json, std::string_view otherwise, std::string_view place) {
  using Behavior = PreTokenizerStep::Behavior;
  constexpr std::array<std::pair<std::string_view, Behavior>, 5> names = {{
      {"Isolated", Behavior::isolated},
      {"Removed", Behavior::removed},
      {"MergedWithPrevious", Behavior::merged_with_previous},
      {"MergedWithNext", Behavior::merged_with_next},
      {"Contiguous", Behavior::contiguous},
  }};
  const std::string name = text_or(json, "behavior", otherwise, place);
  const auto found = std::ranges::find(names, std::string_view(name), &std::pair<std::string_view, Behavior>::first);
  if (found == names.end()) fail(Errc::corrupt, place, ".behavior: unknown value ", printable(name));
  return found->second;
}

PreTokenizerStep split_by(std::string pattern, PreTokenizerStep::Behavior behavior = PreTokenizerStep::Behavior::isolated) {
  return {.kind = PreTokenizerStep::Kind::split, .pattern = std::move(pattern), .behavior = behavior};
}

PreTokenizerStep read_metaspace(const Json& json, std::string_view place) {
  PreTokenizerStep step{.kind = PreTokenizerStep::Kind::metaspace, .pattern = text_or(json, "replacement", low_line, place)};
  // Files before 2024 have add_prefix_space instead of prepend_scheme.
  const bool legacy = flag(json, "add_prefix_space", true, place);
  const std::string scheme = text_or(json, "prepend_scheme", legacy ? "always" : "never", place);
  if (scheme == "always") {
    step.prepend = PreTokenizerStep::Prepend::always;
  } else if (scheme == "never") {
    step.prepend = PreTokenizerStep::Prepend::never;
  } else if (scheme == "first") {
    step.prepend = PreTokenizerStep::Prepend::first;
  } else {
    fail(Errc::corrupt, place, ".prepend_scheme: unknown value ", printable(scheme));
  }
  step.cut = flag(json, "split", true, place);
  return step;
}

void read_byte_level(const Json& json, TokenizerSpec& spec, std::string_view place) {
  spec.byte_level = true;
  if (flag(json, "add_prefix_space", true, place)) {
    spec.pre_tokenizer.push_back({.kind = PreTokenizerStep::Kind::prefix_space, .pattern = {}});
  }
  if (flag(json, "use_regex", true, place)) {
    const auto& steps = find_pre_tokenizer("gpt-2")->steps;
    spec.pre_tokenizer.insert(spec.pre_tokenizer.end(), steps.begin(), steps.end());
  }
}

/// Appends the ids that a template's name stands for.
void add_template_tokens(const Json& json, const Json* known, const TokenizerSpec& spec, std::vector<TokenId>& out, std::string_view place) {
  const std::string& name = need_text(json, "id", place);
  if (const Json* entry = known ? member(*known, name) : nullptr) {
    const Json& ids = need(*entry, "ids", place);
    if (ids.is_array() && ids.size() > limits::tokenizer_steps) fail(Errc::unsupported, place, ": more than ", limits::tokenizer_steps, " tokens");
    for (const Json& id : ids) out.push_back(token_id(id, place));
    if (!ids.empty()) return;
  }
  const TokenId found = spec.pieces.find(name);
  if (found < 0) fail(Errc::corrupt, place, ": ", printable(name), " is not in the vocabulary");
  out.push_back(found);
}

/// What stands around two texts, where that is what stands around one and something between them.
void read_pair(const Json& json, const Json* known, TokenizerSpec& spec, std::string_view place) {
  const Json* items = member(json, "pair");
  if (items == nullptr || !items->is_array() || items->size() > limits::tokenizer_steps) return;
  std::vector<TokenId> parts[3];  // before the first text, between, behind the second
  std::size_t part = 0;
  bool typed = false;
  for (const Json& item : *items) {
    if (const Json* token = member(item, "SpecialToken")) {
      add_template_tokens(*token, known, spec, parts[part], message(place, ".pair"));
      if (parts[part].size() > limits::tokenizer_steps) return;
      continue;
    }
    const Json* text = member(item, "Sequence");
    if (text == nullptr || part == 2) return;
    const Json* type = member(*text, "type_id");
    if (part++ == 1) typed = type != nullptr && *type == Json(1);
  }
  if (part != 2 || parts[0] != spec.prefix) return;
  spec.between = std::move(parts[1]);
  spec.pair_suffix = std::move(parts[2]);
  spec.types_pairs = typed;
}

void read_template(const Json& json, TokenizerSpec& spec, std::string_view place) {
  const Json* known = member(json, "special_tokens");
  bool text_seen = false;
  for (const Json& item : list_of(json, "single", place)) {
    const std::string at = message(place, ".single");
    if (const Json* token = member(item, "SpecialToken")) {
      add_template_tokens(*token, known, spec, text_seen ? spec.suffix : spec.prefix, at);
    } else if (member(item, "Sequence") && !text_seen) {
      text_seen = true;
    } else {
      fail(Errc::corrupt, at, ": expected special tokens around one sequence");
    }
  }
  if (!text_seen) fail(Errc::corrupt, place, ".single: the sequence is missing");
  if (!spec.suffix.empty()) read_pair(json, known, spec, place);
}

/// ["</s>", 2]
TokenId named_token(const Json& json, const char* key, std::string_view place) {
  const Json& pair = need(json, key, place);
  if (!pair.is_array() || pair.size() != 2) fail(Errc::corrupt, place, ".", key, ": expected a token and its id");
  return token_id(pair[1], message(place, ".", key));
}

/// What BERT does to a text, as steps.
void read_bert(const Json& json, std::vector<NormalizerStep>& steps, std::string_view place) {
  using Kind = NormalizerStep::Kind;
  const auto add = [&](Kind kind) { steps.push_back({.kind = kind, .pattern = {}, .content = {}}); };
  const bool lowercase = flag(json, "lowercase", true, place);
  if (flag(json, "clean_text", true, place)) add(Kind::clean);
  if (flag(json, "handle_chinese_chars", true, place)) add(Kind::space_ideographs);
  if (flag(json, "strip_accents", lowercase, place)) {
    add(Kind::nfd);
    add(Kind::drop_nonspacing);
  }
  if (lowercase) add(Kind::lowercase);
}

/// How one decoder goes into the specification; `fused` says that tokens have become one text before it.
struct DecoderReader {
  TokenizerSpec& spec;
  bool fused = false;

  void read(const Json& json, std::string_view place) {
    const std::string type = need_text(json, "type", place);
    if (type == "Sequence") {
      for (const Json& step : list_of(json, "decoders", place)) read(step, place);
    } else if (type == "ByteLevel") {
      spec.spelled_bytes = !spec.byte_level;
      fused = true;
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Replace") {
      replace(json, place);
    } else if (type == "Strip") {
      strip(json, place);
    } else if (type == "Metaspace") {
      const PreTokenizerStep step = read_metaspace(json, place);
      if (step.prepend != PreTokenizerStep::Prepend::never) spec.decode.replace.push_back({step.pattern, "", false, DecodeReplace::Where::first});
      spec.decode.replace.push_back({step.pattern, " "});
    } else if (type == "WordPiece") {
      spec.decode.join = true;
      spec.decode.continuing = text_or(json, "prefix", "##", place);
      spec.decode.cleanup = flag(json, "cleanup", true, place);
    } else if (type == "BPEDecoder") {
      const std::string suffix = text_or(json, "suffix", "</w>", place);
      spec.decode.replace.push_back({suffix, "", false, DecodeReplace::Where::last});
      spec.decode.replace.push_back({suffix, " "});
    } else if (type == "CTC") {
      spec.decode.collapse_repeats = true;
      spec.decode.replace.push_back({text_or(json, "pad_token", "<pad>", place), ""});
      spec.decode.cleanup = flag(json, "cleanup", true, place);
      if (spec.decode.cleanup) spec.decode.replace.push_back({text_or(json, "word_delimiter_token", "|", place), " "});
    } else if (type != "ByteFallback") {
      fail(Errc::unsupported, place, ": decoder ", printable(type), " is not supported yet");
    }
  }

  void replace(const Json& json, std::string_view place) {
    auto [pattern, regex] = read_pattern(json, place);
    if (regex && fused) fail(Errc::unsupported, place, ": a decoder that replaces by regular expression in the whole text is not supported yet");
    spec.decode.replace.push_back({std::move(pattern), need_text(json, "content", place), regex});
  }

  void strip(const Json& json, std::string_view place) {
    const auto count = [&](const char* key) {
      const Json* value = member(json, key);
      return value ? static_cast<std::uint32_t>(token_id(*value, message(place, ".", key))) : 0u;
    };
    const std::string content = text_or(json, "content", " ", place);
    if (utf8::decode(content + " ", 0).length != content.size()) fail(Errc::corrupt, place, ".content: expected one character, found ", printable(content));
    if (fused) {
      spec.decode.strip_of = content;
      spec.decode.strip = count("start");
      spec.decode.strip_end = count("stop");
      return;
    }
    // Of each token.
    const std::string one = message("(?:", escaped(content), ")");
    const auto cut = [&](const char* key, std::string pattern) {
      if (count(key) > 0) spec.decode.replace.push_back({std::move(pattern), "", true});
    };
    cut("start", message("\\A", one, "{1,", std::min(count("start"), 65535u), "}"));
    cut("stop", message(one, "{1,", std::min(count("stop"), 65535u), "}\\z"));
  }

  static std::string escaped(std::string_view character) {
    const bool letter = character.size() > 1 || std::isalnum(static_cast<unsigned char>(character[0])) || character[0] == ' ';
    return letter ? std::string(character) : "\\" + std::string(character);
  }
};

}  // namespace

std::vector<PreTokenizerStep> bert_pre_tokenizer() {
  return {split_by("\\s", PreTokenizerStep::Behavior::removed), split_by(std::string(punctuation))};
}

void read_normalizer(const Json& json, TokenizerSpec& spec, std::string_view place) {
  using Kind = NormalizerStep::Kind;
  const std::string& type = need_text(json, "type", place);
  auto& steps = spec.normalizer;
  if (type == "Sequence") {
    for (const Json& step : list_of(json, "normalizers", place)) read_normalizer(step, spec, place);
  } else if (type == "Prepend") {
    steps.push_back({.kind = Kind::prepend, .pattern = {}, .content = need_text(json, "prepend", place)});
  } else if (type == "Replace") {
    auto [pattern, regex] = read_pattern(json, place);
    steps.push_back({.kind = regex ? Kind::replace_regex : Kind::replace,
                     .pattern = std::move(pattern),
                     .content = need_text(json, "content", place)});
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    steps.push_back({.kind = type == "NFC"    ? Kind::nfc
                             : type == "NFD"  ? Kind::nfd
                             : type == "NFKC" ? Kind::nfkc
                                              : Kind::nfkd,
                     .pattern = {},
                     .content = {}});
  } else if (type == "Strip") {
    steps.push_back(read_strip(json, place));
  } else if (type == "Lowercase") {
    steps.push_back({.kind = Kind::lowercase, .pattern = {}, .content = {}});
  } else if (type == "StripAccents") {
    steps.push_back({.kind = Kind::drop_marks, .pattern = {}, .content = {}});
  } else if (type == "Nmt") {
    steps.push_back({.kind = Kind::nmt, .pattern = {}, .content = {}});
  } else if (type == "ByteLevel") {
    steps.push_back({.kind = Kind::spell_bytes, .pattern = {}, .content = {}});
    spec.spelled_bytes = true;
  } else if (type == "BertNormalizer") {
    read_bert(json, steps, place);
  } else if (type == "Precompiled") {
    const std::string map = text_or(json, "precompiled_charsmap", "", place);
    if (!map.empty()) steps.push_back({.kind = Kind::grapheme_charsmap, .pattern = {}, .content = map});
  } else {
    fail(Errc::unsupported, place, ": normalizer ", printable(type), " is not supported yet");
  }
}

void read_pre_tokenizer(const Json& json, TokenizerSpec& spec, std::string_view place) {
  using Behavior = PreTokenizerStep::Behavior;
  const std::string& type = need_text(json, "type", place);
  auto& steps = spec.pre_tokenizer;
  if (type == "Sequence") {
    for (const Json& step : list_of(json, "pretokenizers", place)) read_pre_tokenizer(step, spec, place);
  } else if (type == "ByteLevel") {
    read_byte_level(json, spec, place);
  } else if (type == "Split") {
    auto [pattern, regex] = read_pattern(json, place);
    steps.push_back({.kind = regex ? PreTokenizerStep::Kind::split : PreTokenizerStep::Kind::split_literal,
                     .pattern = std::move(pattern),
                     .behavior = read_behavior(json, "Isolated", place),
                     .invert = flag(json, "invert", false, place)});
  } else if (type == "Digits") {
    const bool each = flag(json, "individual_digits", false, place);
    steps.push_back(each ? split_by("\\p{N}") : split_by("\\p{N}+"));
  } else if (type == "Punctuation") {
    steps.push_back(split_by(std::string(punctuation), read_behavior(json, "Isolated", place)));
  } else if (type == "Metaspace") {
    steps.push_back(read_metaspace(json, place));
  } else if (type == "BertPreTokenizer") {
    const std::vector<PreTokenizerStep> bert = bert_pre_tokenizer();
    steps.insert(steps.end(), bert.begin(), bert.end());
  } else if (type == "CharDelimiterSplit" || type == "Delimiter") {
    steps.push_back({.kind = PreTokenizerStep::Kind::split_literal, .pattern = need_text(json, "delimiter", place), .behavior = Behavior::removed});
  } else if (type == "UnicodeScripts") {
    PreTokenizerStep step = split_by(unicode_scripts_regex(), Behavior::removed);
    step.invert = true;
    steps.push_back(std::move(step));
  } else if (type == "FixedLength") {
    const Json* length = member(json, "length");
    const std::int32_t characters = length ? token_id(*length, message(place, ".length")) : 5;
    // The longest that an expression can say.
    if (characters < 1 || characters > 65535) fail(Errc::unsupported, place, ".length: expected 1 to 65535, found ", characters);
    steps.push_back(split_by(message("[\\s\\S]{1,", characters, "}")));
  } else if (type == "WhitespaceSplit") {
    steps.push_back(split_by("\\s", Behavior::removed));
  } else if (type == "Whitespace") {
    // \w as Rust's library has it, not Oniguruma's.
    constexpr std::string_view word = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}";
    PreTokenizerStep step = split_by(message("[", word, "]+|[^", word, "\\s]+"), Behavior::removed);
    step.invert = true;
    steps.push_back(std::move(step));
  } else {
    fail(Errc::unsupported, place, ": pre-tokenizer ", printable(type), " is not supported yet");
  }
}

void read_decoder(const Json* json, TokenizerSpec& spec, std::string_view place) {
  if (!json) {
    spec.decode.join = !spec.byte_level;
    return;
  }
  DecoderReader{spec}.read(*json, place);
}

void read_post_processor(const Json& json, TokenizerSpec& spec, std::string_view place) {
  const std::string& type = need_text(json, "type", place);
  if (type == "Sequence") {
    for (const Json& step : list_of(json, "processors", place)) read_post_processor(step, spec, place);
  } else if (type == "TemplateProcessing") {
    read_template(json, spec, place);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    spec.prefix.push_back(named_token(json, "cls", place));
    const TokenId separator = named_token(json, "sep", place);
    spec.suffix.push_back(separator);
    spec.types_pairs = type == "BertProcessing";
    spec.between.assign(spec.types_pairs ? 1 : 2, separator);
    spec.pair_suffix.assign(1, separator);
  } else if (type != "ByteLevel") {
    fail(Errc::unsupported, place, ": post-processor ", printable(type), " is not supported yet");
  }
  // Here, not when all is read: each looks for its token in the whole vocabulary.
  if (spec.prefix.size() + spec.suffix.size() > limits::tokenizer_steps) {
    fail(Errc::unsupported, place, ": more than ", limits::tokenizer_steps, " tokens");
  }
}

}  // namespace bantam::inline v0
