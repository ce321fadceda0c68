// How native files carry their tokenizer: the specification as JSON, compact and exact.
#include <algorithm>
#include <span>

#include "bantam/core/error.hpp"
#include "text/loaders.hpp"

namespace bantam::inline v0 {

namespace {

constexpr const char* format_name = "bantam-tokenizer";
/// Counts up when a reader of this version could not read what is written. What earlier versions knew is written as they did.
constexpr int format_version = 3;

bool fits_version_1(const TokenizerSpec& spec) {
  const DecodeSpec& decode = spec.decode;
  const bool steps = std::ranges::all_of(spec.normalizer, [](const NormalizerStep& step) { return step.kind <= NormalizerStep::Kind::collapse_spaces; });
  const bool replaces = std::ranges::none_of(decode.replace, &DecodeReplace::regex);
  const bool decodes = decode.strip_end == 0 && decode.strip_of == " " && !decode.join && !decode.cleanup && !decode.collapse_repeats;
  return steps && replaces && decodes && (spec.kind == "spm" || spec.kind == "bpe") && !spec.spelled_bytes && spec.continuing.empty() &&
         spec.word_end.empty();
}

int version_of(const TokenizerSpec& spec) {
  const bool places = std::ranges::any_of(spec.decode.replace, [](const DecodeReplace& step) { return step.where != DecodeReplace::Where::everywhere; });
  const bool appends = std::ranges::any_of(spec.normalizer, [](const NormalizerStep& step) { return step.kind == NormalizerStep::Kind::append; });
  return places || appends ? 3 : fits_version_1(spec) ? 1 : 2;
}

enum AddedFlag : unsigned { is_special = 1, is_normalized = 2, is_verbatim = 4, takes_left = 8, takes_right = 16, is_word = 32 };

unsigned flags_of(const AddedToken& t) {
  return (t.special ? is_special : 0u) | (t.normalized ? is_normalized : 0u) | (t.verbatim ? is_verbatim : 0u) |
         (t.left_space ? takes_left : 0u) | (t.right_space ? takes_right : 0u) | (t.single_word ? is_word : 0u);
}

AddedToken added_of(TokenId id, unsigned flags) {
  return {.id = id,
          .special = (flags & is_special) != 0,
          .normalized = (flags & is_normalized) != 0,
          .verbatim = (flags & is_verbatim) != 0,
          .left_space = (flags & takes_left) != 0,
          .right_space = (flags & takes_right) != 0,
          .single_word = (flags & is_word) != 0};
}

const Json& list(const Json& json, const char* key, std::string_view place) {
  const Json& found = need(json, key, place);
  expect(found.is_array(), message(place, ".", key), "an array", found);
  return found;
}

/// An integer from 0 to `most`, as an enumeration or a count is stored.
unsigned small(const Json& value, unsigned least, unsigned most, std::string_view place) {
  const std::int32_t number = token_id(value, place);
  if (static_cast<unsigned>(number) < least || static_cast<unsigned>(number) > most) {
    fail(Errc::corrupt, place, ": expected ", least, " to ", most, ", found ", number);
  }
  return static_cast<unsigned>(number);
}

std::vector<TokenId> ids(const Json& json, const char* key, std::string_view place) {
  std::vector<TokenId> out;
  for (const Json& id : list(json, key, place)) out.push_back(token_id(id, place));
  return out;
}

/// -1 or an id.
TokenId optional_id(const Json& json, const char* key, std::string_view place) {
  const Json* found = member(json, key);
  return found ? token_id(*found, place) : -1;
}

void read_vocabulary(const Json& json, TokenizerSpec& spec, std::string_view place) {
  for (const Json& piece : list(json, "pieces", place)) {
    expect(piece.is_string(), place, "a piece", piece);
    spec.pieces.push_back(piece.string());
  }
  for (const char digit : need_text(json, "types", place)) {
    if (digit < '1' || digit > '6') fail(Errc::corrupt, place, ".types: expected digits from 1 to 6");
    spec.types.push_back(static_cast<TokenType>(digit - '0'));
  }
  for (const Json& score : list(json, "scores", place)) {
    expect(score.is_number(), place, "a score", score);
    spec.scores.push_back(score.get<double>());
  }
  const Json& merges = list(json, "merges", place);
  if (merges.size() % 3 != 0) fail(Errc::corrupt, place, ".merges: expected three ids a merge, found ", merges.size(), " ids");
  spec.merges.reserve(merges.size() / 3);
  for (std::size_t i = 0; i < merges.size(); i += 3) {
    spec.merges.push_back({token_id(merges[i], place), token_id(merges[i + 1], place), token_id(merges[i + 2], place)});
  }
  for (const Json& added : list(json, "added", place)) {
    if (!added.is_array() || added.size() != 2) fail(Errc::corrupt, place, ".added: expected an id and its flags");
    spec.added.push_back(added_of(token_id(added[0], place), small(added[1], 0, 63, place)));
  }
}

void read_steps(const Json& json, TokenizerSpec& spec, std::string_view place) {
  for (const Json& item : list(json, "normalizer", place)) {
    NormalizerStep step;
    step.kind = static_cast<NormalizerStep::Kind>(small(need(item, "kind", place), 1, NormalizerStep::kinds, place));
    step.pattern = text_or(item, "pattern", "", place);
    step.content = text_or(item, "content", "", place);
    step.left = flag(item, "left", true, place);
    step.right = flag(item, "right", true, place);
    spec.normalizer.push_back(std::move(step));
  }
  for (const Json& item : list(json, "pre_tokenizer", place)) {
    PreTokenizerStep step;
    step.kind = static_cast<PreTokenizerStep::Kind>(small(need(item, "kind", place), 1, 4, place));
    step.pattern = text_or(item, "pattern", "", place);
    step.behavior = static_cast<PreTokenizerStep::Behavior>(small(need(item, "behavior", place), 1, 5, place));
    step.prepend = static_cast<PreTokenizerStep::Prepend>(small(need(item, "prepend", place), 1, 3, place));
    step.invert = flag(item, "invert", false, place);
    step.cut = flag(item, "cut", true, place);
    spec.pre_tokenizer.push_back(std::move(step));
  }
}

void read_decoding(const Json& json, DecodeSpec& decode, std::string_view place) {
  for (const Json& item : list(json, "decode_replace", place)) {
    const bool array = item.is_array() && item.size() >= 2 && item.size() <= 4 && item[0].is_string() && item[1].is_string();
    if (!array || (item.size() > 2 && !item[2].is_boolean())) fail(Errc::corrupt, place, ".decode_replace: expected pairs of strings");
    const unsigned where = item.size() > 3 ? small(item[3], 0, 2, message(place, ".decode_replace")) : 0;
    decode.replace.push_back({std::string(item[0].string()), std::string(item[1].string()), item.size() > 2 && item[2].get<bool>(),
                              static_cast<DecodeReplace::Where>(where)});
  }
  decode.strip = small(need(json, "decode_strip", place), 0, 0x7fffffff, place);
  if (const Json* end = member(json, "decode_strip_end")) decode.strip_end = small(*end, 0, 0x7fffffff, place);
  decode.strip_of = text_or(json, "decode_strip_of", " ", place);
  decode.join = flag(json, "decode_join", false, place);
  decode.continuing = text_or(json, "decode_continuing", "", place);
  decode.cleanup = flag(json, "decode_cleanup", false, place);
  decode.collapse_repeats = flag(json, "decode_collapse_repeats", false, place);
}

/// SentencePiece's scores are floats, whose digits are fewer.
Json json_of(std::span<const double> scores) {
  const bool floats = std::ranges::all_of(scores, [](double score) { return static_cast<double>(static_cast<float>(score)) == score; });
  return floats ? Json(std::vector<float>(scores.begin(), scores.end())) : Json(std::vector<double>(scores.begin(), scores.end()));
}

}  // namespace

std::string native_json(const TokenizerSpec& spec) {
  Json json;
  json["format"] = format_name;
  json["version"] = version_of(spec);
  json["kind"] = spec.kind;
  json["pre"] = spec.pre;
  json["byte_level"] = spec.byte_level;
  json["byte_fallback"] = spec.byte_fallback;
  json["fuse_unknown"] = spec.fuse_unknown;
  json["ignore_merges"] = spec.ignore_merges;
  const auto unless_empty = [&](const char* key, const std::string& text) {
    if (!text.empty()) json[key] = text;
  };
  if (spec.spelled_bytes) json["spelled_bytes"] = true;
  unless_empty("continuing", spec.continuing);
  unless_empty("word_end", spec.word_end);
  if (spec.longest_word > 0) json["longest_word"] = spec.longest_word;
  if (spec.unknown_score != 0) json["unknown_score"] = spec.unknown_score;
  json["pieces"] = Json::array();
  for (const std::string_view piece : spec.pieces) json["pieces"].push_back(piece);
  std::string types;
  for (const TokenType type : spec.types) types += static_cast<char>('0' + static_cast<int>(type));
  json["types"] = types;
  json["scores"] = json_of(spec.scores);
  json["merges"] = Json::array();
  for (const auto& merge : spec.merges) {
    for (const TokenId id : merge) json["merges"].push_back(id);
  }
  json["added"] = Json::array();
  for (const AddedToken& added : spec.added) json["added"].push_back(Json::array({added.id, flags_of(added)}));
  json["normalizer"] = Json::array();
  for (const NormalizerStep& step : spec.normalizer) {
    json["normalizer"].push_back({{"kind", static_cast<int>(step.kind)},
                                  {"pattern", step.pattern},
                                  {"content", step.content},
                                  {"left", step.left},
                                  {"right", step.right}});
  }
  json["pre_tokenizer"] = Json::array();
  for (const PreTokenizerStep& step : spec.pre_tokenizer) {
    json["pre_tokenizer"].push_back({{"kind", static_cast<int>(step.kind)},
                                     {"pattern", step.pattern},
                                     {"behavior", static_cast<int>(step.behavior)},
                                     {"invert", step.invert},
                                     {"prepend", static_cast<int>(step.prepend)},
                                     {"cut", step.cut}});
  }
  json["decode_replace"] = Json::array();
  for (const DecodeReplace& step : spec.decode.replace) {
    Json row = Json::array({step.pattern, step.content});
    const bool placed = step.where != DecodeReplace::Where::everywhere;
    if (step.regex || placed) row.push_back(step.regex);
    if (placed) row.push_back(static_cast<int>(step.where));
    json["decode_replace"].push_back(std::move(row));
  }
  json["decode_strip"] = spec.decode.strip;
  if (spec.decode.strip_end > 0) json["decode_strip_end"] = spec.decode.strip_end;
  if (spec.decode.strip_of != " ") json["decode_strip_of"] = spec.decode.strip_of;
  if (spec.decode.join) json["decode_join"] = true;
  unless_empty("decode_continuing", spec.decode.continuing);
  if (spec.decode.cleanup) json["decode_cleanup"] = true;
  if (spec.decode.collapse_repeats) json["decode_collapse_repeats"] = true;
  if (spec.bos >= 0) json["bos"] = spec.bos;
  if (spec.eos >= 0) json["eos"] = spec.eos;
  if (spec.unknown >= 0) json["unknown"] = spec.unknown;
  json["prefix"] = spec.prefix;
  json["suffix"] = spec.suffix;
  if (!spec.between.empty() || !spec.pair_suffix.empty()) {
    json["between"] = spec.between;
    json["pair_suffix"] = spec.pair_suffix;
    json["types_pairs"] = spec.types_pairs;
  }
  json["ends"] = spec.ends;
  json["chat_template"] = spec.chat_template;
  return json.dump();
}

TokenizerSpec spec_from_native_json(std::string_view text, std::string_view place) {
  const Json json = Json::parse(text, place);
  if (need_text(json, "format", place) != format_name) fail(Errc::corrupt, place, ": expected format ", format_name);
  if (const auto version = token_id(need(json, "version", place), place); version < 1 || version > format_version) {
    fail(Errc::unsupported, place, ": expected tokenizer version 1 to ", format_version, ", found ", version);
  }
  TokenizerSpec spec;
  spec.kind = need_text(json, "kind", place);
  spec.pre = text_or(json, "pre", "", place);
  spec.byte_level = flag(json, "byte_level", false, place);
  spec.byte_fallback = flag(json, "byte_fallback", false, place);
  spec.fuse_unknown = flag(json, "fuse_unknown", false, place);
  spec.ignore_merges = flag(json, "ignore_merges", false, place);
  spec.spelled_bytes = flag(json, "spelled_bytes", false, place);
  spec.continuing = text_or(json, "continuing", "", place);
  spec.word_end = text_or(json, "word_end", "", place);
  if (const Json* longest = member(json, "longest_word")) spec.longest_word = small(*longest, 0, 0x7fffffff, place);
  if (const Json* score = member(json, "unknown_score")) {
    expect(score->is_number(), message(place, ".unknown_score"), "a number", *score);
    spec.unknown_score = score->get<double>();
  }
  read_vocabulary(json, spec, place);
  read_steps(json, spec, place);
  read_decoding(json, spec.decode, place);
  spec.bos = optional_id(json, "bos", place);
  spec.eos = optional_id(json, "eos", place);
  spec.unknown = optional_id(json, "unknown", place);
  spec.prefix = ids(json, "prefix", place);
  spec.suffix = ids(json, "suffix", place);
  if (member(json, "between") != nullptr) {
    spec.between = ids(json, "between", place);
    spec.pair_suffix = ids(json, "pair_suffix", place);
    spec.types_pairs = flag(json, "types_pairs", false, place);
  }
  spec.ends = ids(json, "ends", place);
  spec.chat_template = text_or(json, "chat_template", "", place);
  // Older files have pieces as GGUF spells them.
  if (!text_or(json, "word_begin", "", place).empty()) spell_as_bert(spec);
  return spec;
}

}  // namespace bantam::inline v0
