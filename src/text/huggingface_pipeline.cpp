// Reads what surrounds the model in a tokenizer.json: normalizer, pre-tokenizer, decoder, post-processor.
#include <algorithm>
#include <array>
#include <utility>

#include "bantam/core/error.hpp"
#include "text/loaders.hpp"

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

/// The id of a token that a template names.
TokenId template_token(const Json& json, const Json* known, const TokenizerSpec& spec, std::string_view place) {
  const std::string& name = need_text(json, "id", place);
  if (const Json* entry = known ? member(*known, name) : nullptr) {
    const Json& ids = need(*entry, "ids", place);
    if (ids.is_array() && ids.size() == 1) return token_id(ids[0], place);
  }
  const auto found = std::ranges::find(spec.pieces, name);
  if (found == spec.pieces.end()) fail(Errc::corrupt, place, ": ", printable(name), " is not in the vocabulary");
  return static_cast<TokenId>(found - spec.pieces.begin());
}

void read_template(const Json& json, TokenizerSpec& spec, std::string_view place) {
  const Json* known = member(json, "special_tokens");
  bool text_seen = false;
  for (const Json& item : list_of(json, "single", place)) {
    const std::string at = message(place, ".single");
    if (const Json* token = member(item, "SpecialToken")) {
      (text_seen ? spec.suffix : spec.prefix).push_back(template_token(*token, known, spec, at));
    } else if (member(item, "Sequence") && !text_seen) {
      text_seen = true;
    } else {
      fail(Errc::corrupt, at, ": expected special tokens around one sequence");
    }
  }
  if (!text_seen) fail(Errc::corrupt, place, ".single: the sequence is missing");
}

/// ["</s>", 2]
TokenId named_token(const Json& json, const char* key, std::string_view place) {
  const Json& pair = need(json, key, place);
  if (!pair.is_array() || pair.size() != 2) fail(Errc::corrupt, place, ".", key, ": expected a token and its id");
  return token_id(pair[1], message(place, ".", key));
}

}  // namespace

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
    steps.push_back(split_by("[!-/:-@\\[-`{-~\\p{P}]", read_behavior(json, "Isolated", place)));
  } else if (type == "Metaspace") {
    steps.push_back(read_metaspace(json, place));
  } else if (type == "WhitespaceSplit") {
    steps.push_back(split_by("\\s", Behavior::removed));
  } else if (type == "Whitespace") {
    PreTokenizerStep step = split_by("\\w+|[^\\w\\s]+", Behavior::removed);
    step.invert = true;
    steps.push_back(std::move(step));
  } else {
    fail(Errc::unsupported, place, ": pre-tokenizer ", printable(type), " is not supported yet");
  }
}

void read_decoder(const Json& json, TokenizerSpec& spec, std::string_view place) {
  const std::string& type = need_text(json, "type", place);
  if (type == "Sequence") {
    for (const Json& step : list_of(json, "decoders", place)) read_decoder(step, spec, place);
  } else if (type == "Replace") {
    auto [pattern, regex] = read_pattern(json, place);
    if (regex) fail(Errc::unsupported, place, ": a decoder that replaces by regular expression is not supported yet");
    spec.decode_replace.push_back({std::move(pattern), need_text(json, "content", place)});
  } else if (type == "Metaspace") {
    const PreTokenizerStep step = read_metaspace(json, place);
    spec.decode_replace.push_back({step.pattern, " "});
    if (step.prepend != PreTokenizerStep::Prepend::never) spec.decode_strip = 1;
  } else if (type == "Strip") {
    const Json* start = member(json, "start");
    const Json* stop = member(json, "stop");
    if (need_text(json, "content", place) != " " || (stop && *stop != 0)) {
      fail(Errc::unsupported, place, ": only spaces at the beginning can be stripped");
    }
    if (start) spec.decode_strip = static_cast<std::uint32_t>(token_id(*start, message(place, ".start")));
  } else if (type != "ByteLevel" && type != "ByteFallback" && type != "Fuse") {
    fail(Errc::unsupported, place, ": decoder ", printable(type), " is not supported yet");
  }
}

void read_post_processor(const Json& json, TokenizerSpec& spec, std::string_view place) {
  const std::string& type = need_text(json, "type", place);
  if (type == "Sequence") {
    for (const Json& step : list_of(json, "processors", place)) read_post_processor(step, spec, place);
  } else if (type == "TemplateProcessing") {
    read_template(json, spec, place);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    spec.prefix.push_back(named_token(json, "cls", place));
    spec.suffix.push_back(named_token(json, "sep", place));
  } else if (type != "ByteLevel") {
    fail(Errc::unsupported, place, ": post-processor ", printable(type), " is not supported yet");
  }
  // Here, not when all is read: each looks for its token in the whole vocabulary.
  if (spec.prefix.size() + spec.suffix.size() > limits::tokenizer_steps) {
    fail(Errc::unsupported, place, ": more than ", limits::tokenizer_steps, " tokens");
  }
}

}  // namespace bantam::inline v0
