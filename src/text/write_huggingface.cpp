// Writes tokenizer.json and tokenizer_config.json, the files that Hugging Face's loaders read.
#include <algorithm>
#include <array>
#include <charconv>

#include "bantam/core/error.hpp"
#include "bantam/io/file.hpp"
#include "text/loaders.hpp"
#include "text/tokenizer_data.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

namespace {

// Members in the order in which they are set. Small objects only: each lookup passes over all members.
using Object = nlohmann::ordered_json;

std::string quoted(const std::string& text) { return Json(text).dump(); }

const std::string& spelling(const TokenizerSpec& spec, TokenId id) { return spec.pieces[static_cast<std::size_t>(id)]; }

Object pattern_of(const std::string& pattern, bool regex) { return {{regex ? "Regex" : "String", pattern}}; }

Object sequence(const char* key, Object list) {
  if (list.empty()) return nullptr;
  if (list.size() == 1) return list[0];
  return {{"type", "Sequence"}, {key, std::move(list)}};
}

/// \x{4E00} as the character itself: not every reader's expressions know the notation. ASCII stays, for it may mean more.
std::string with_characters(std::string_view pattern) {
  constexpr std::string_view opening = "\\x{";
  std::string out;
  std::size_t done = 0;
  for (std::size_t hit; (hit = pattern.find(opening, done)) != std::string_view::npos;) {
    const char* digits = pattern.data() + hit + opening.size();
    std::uint32_t code = 0;
    const auto [end, error] = std::from_chars(digits, pattern.data() + pattern.size(), code, 16);
    const std::size_t next = static_cast<std::size_t>(end - pattern.data()) + 1;
    const bool escaped = hit > 0 && pattern[hit - 1] == '\\';
    const bool character = error == std::errc{} && next <= pattern.size() && *end == '}' && code >= 0x80 && code <= 0x10ffff &&
                           (code < 0xd800 || code > 0xdfff) && !escaped;
    out += pattern.substr(done, hit - done);
    if (character) {
      utf8::append(out, code);
      done = next;
    } else {
      out += opening;
      done = hit + opening.size();
    }
  }
  return out.append(pattern.substr(done));
}

/// The vocabulary as an object, in order of ids. Where a spelling comes twice, the id that looking it up gives.
std::string vocabulary(const Tokenizer::Data& data) {
  std::string text = "{";
  for (std::size_t i = 0; i < data.spec.pieces.size(); ++i) {
    const auto found = data.index.find(data.spec.pieces[i]);
    if (found == data.index.end() || found->second != static_cast<TokenId>(i)) continue;
    text += message(text.size() > 1 ? ",\n" : "\n", "      ", quoted(data.spec.pieces[i]), ": ", i);
  }
  return text + "\n    }";
}

/// What merging makes of which pair, first things first. SentencePiece merges by the score of the result: every way to
/// make a piece of two others comes at its place, of several ways those with the longer beginning first.
std::vector<std::array<TokenId, 2>> pairs_in_order(const Tokenizer::Data& data, std::string_view place) {
  const TokenizerSpec& spec = data.spec;
  std::vector<std::array<TokenId, 2>> pairs;
  if (spec.scores.empty()) {
    pairs.reserve(spec.merges.size());
    for (const auto& [left, right, merged] : spec.merges) pairs.push_back({left, right});
    return pairs;
  }
  std::vector<bool> mergeable(spec.pieces.size());
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    const bool merges = spec.types[i] == TokenType::normal || spec.types[i] == TokenType::unused;
    mergeable[i] = merges && !spec.pieces[i].empty() && data.index.at(spec.pieces[i]) == static_cast<TokenId>(i);
  }
  const std::vector<std::string_view> symbols(spec.pieces.begin(), spec.pieces.end());
  std::vector<Merge> merges = merges_from_scores(symbols, spec.scores, mergeable, place);
  const auto left_bytes = [&](const Merge& merge) { return symbols[static_cast<std::size_t>(merge.left)].size(); };
  std::ranges::stable_sort(merges, [&](const Merge& a, const Merge& b) {
    return a.rank != b.rank ? a.rank < b.rank : left_bytes(a) > left_bytes(b);
  });
  pairs.reserve(merges.size());
  for (const Merge& merge : merges) pairs.push_back({merge.left, merge.right});
  return pairs;
}

std::string merge_list(const Tokenizer::Data& data, std::string_view place) {
  const std::vector<std::array<TokenId, 2>> pairs = pairs_in_order(data, place);
  const auto has_space = [&](TokenId id) { return spelling(data.spec, id).find(' ') != std::string::npos; };
  // Older readers know only "left right", which says nothing certain about pieces with spaces.
  const bool apart = std::ranges::any_of(pairs, [&](const auto& pair) { return has_space(pair[0]) || has_space(pair[1]); });
  std::string text = "[";
  for (const auto& [left, right] : pairs) {
    const std::string& a = spelling(data.spec, left);
    const std::string& b = spelling(data.spec, right);
    text += text.size() > 1 ? ",\n      " : "\n      ";
    text += apart ? message('[', quoted(a), ", ", quoted(b), ']') : quoted(message(a, ' ', b));
  }
  return text + "\n    ]";
}

std::string model_of(const Tokenizer::Data& data, std::string_view place) {
  const TokenizerSpec& spec = data.spec;
  // A byte-level model has a piece for everything; what its config calls unknown may be any token.
  const bool names_unknown = spec.unknown >= 0 && (!spec.byte_level || spec.types[static_cast<std::size_t>(spec.unknown)] == TokenType::unknown);
  return message("{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": ", names_unknown ? quoted(spelling(spec, spec.unknown)) : "null",
                 ",\n    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": ", spec.fuse_unknown,
                 ",\n    \"byte_fallback\": ", spec.byte_fallback, ",\n    \"ignore_merges\": ", spec.ignore_merges,
                 ",\n    \"vocab\": ", vocabulary(data), ",\n    \"merges\": ", merge_list(data, place), "\n  }");
}

/// SentencePiece's own symbols are found in the normalized text and never merge with others. One of a single character
/// is in no merge, so it is left alone without a word.
bool needs_no_mention(const TokenizerSpec& spec, const AddedToken& token) {
  const std::string& content = spelling(spec, token.id);
  return token.verbatim && spec.pre_tokenizer.empty() && utf8::decode(content, 0).length == content.size();
}

std::string added_tokens(const TokenizerSpec& spec) {
  std::vector<AddedToken> tokens = spec.added;
  std::erase_if(tokens, [&](const AddedToken& token) { return needs_no_mention(spec, token); });
  std::ranges::sort(tokens, {}, &AddedToken::id);
  std::string text = "[";
  for (const AddedToken& token : tokens) {
    const Object json = {{"id", token.id},
                         {"content", spelling(spec, token.id)},
                         {"single_word", token.single_word},
                         {"lstrip", token.left_space},
                         {"rstrip", token.right_space},
                         {"normalized", token.normalized},
                         {"special", token.special}};
    text += message(text.size() > 1 ? ",\n    " : "\n    ", json.dump());
  }
  return text + (tokens.empty() ? "]" : "\n  ]");
}

void add_normalizer(Object& list, const NormalizerStep& step) {
  using Kind = NormalizerStep::Kind;
  const auto replace = [&](Object pattern, const std::string& content) {
    list.push_back({{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", content}});
  };
  switch (step.kind) {
    case Kind::prepend: list.push_back({{"type", "Prepend"}, {"prepend", step.content}}); break;
    case Kind::replace: replace(pattern_of(step.pattern, false), step.content); break;
    case Kind::replace_regex: replace(pattern_of(step.pattern, true), step.content); break;
    case Kind::nfc: list.push_back({{"type", "NFC"}}); break;
    case Kind::nfd: list.push_back({{"type", "NFD"}}); break;
    case Kind::nfkc: list.push_back({{"type", "NFKC"}}); break;
    case Kind::nfkd: list.push_back({{"type", "NFKD"}}); break;
    case Kind::strip: list.push_back({{"type", "Strip"}, {"strip_left", step.left}, {"strip_right", step.right}}); break;
    case Kind::lowercase: list.push_back({{"type", "Lowercase"}}); break;
    case Kind::collapse_spaces:
      // Strip would take other white space, too.
      replace(pattern_of("\\A +| +\\z", true), "");
      replace(pattern_of(" {2,}", true), " ");
      break;
  }
}

/// tokenizer.json puts the spelling of an added token through the normalizer, SentencePiece that of its own symbols not:
/// where there are some, the prefix of a text is left to the pre-tokenizer. Texts that begin with
/// a space or such a symbol then get none, as in Hugging Face's own conversions of such models.
bool prefixes_late(const TokenizerSpec& spec) {
  return std::ranges::any_of(spec.added, [&](const AddedToken& token) { return token.verbatim && !needs_no_mention(spec, token); });
}

Object normalizer_of(const TokenizerSpec& spec) {
  Object list = Object::array();
  for (const NormalizerStep& step : spec.normalizer) {
    if (step.kind == NormalizerStep::Kind::prepend && prefixes_late(spec)) continue;
    add_normalizer(list, step);
  }
  return sequence("normalizers", std::move(list));
}

const char* behavior_name(PreTokenizerStep::Behavior behavior) {
  switch (behavior) {
    case PreTokenizerStep::Behavior::isolated: return "Isolated";
    case PreTokenizerStep::Behavior::removed: return "Removed";
    case PreTokenizerStep::Behavior::merged_with_previous: return "MergedWithPrevious";
    case PreTokenizerStep::Behavior::merged_with_next: return "MergedWithNext";
    case PreTokenizerStep::Behavior::contiguous: return "Contiguous";
  }
  return "Isolated";
}

Object metaspace(const std::string& replacement, PreTokenizerStep::Prepend prepend, bool cut) {
  const char* scheme = prepend == PreTokenizerStep::Prepend::always  ? "always"
                       : prepend == PreTokenizerStep::Prepend::never ? "never"
                                                                     : "first";
  return {{"type", "Metaspace"}, {"replacement", replacement}, {"prepend_scheme", scheme}, {"split", cut}};
}

Object byte_level(bool adds_space) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", adds_space}, {"trim_offsets", true}, {"use_regex", false}};
}

Object pre_tokenizer_of(const TokenizerSpec& spec, std::string_view place) {
  using Kind = PreTokenizerStep::Kind;
  Object list = Object::array();
  bool adds_space = false;
  for (std::size_t i = 0; i < spec.pre_tokenizer.size(); ++i) {
    const PreTokenizerStep& step = spec.pre_tokenizer[i];
    if (step.kind == Kind::prefix_space) {
      // Of these files' steps only ByteLevel adds a space, and it can cut by one expression after that.
      const std::vector<PreTokenizerStep> rest(spec.pre_tokenizer.begin() + static_cast<std::ptrdiff_t>(i) + 1, spec.pre_tokenizer.end());
      if (!spec.byte_level || (!rest.empty() && name_of_pre_tokenizer(rest) != "gpt-2")) {
        fail(Errc::unsupported, place, ": expected a pre-tokenizer that tokenizer.json can express, found a space added between others");
      }
      adds_space = true;
      if (rest.empty()) break;
      Object json = byte_level(true);
      json["use_regex"] = true;
      list.push_back(std::move(json));
      return sequence("pretokenizers", std::move(list));
    }
    if (step.kind == Kind::metaspace) {
      list.push_back(metaspace(step.pattern, step.prepend, step.cut));
    } else {
      const bool regex = step.kind == Kind::split;
      list.push_back({{"type", "Split"},
                      {"pattern", pattern_of(regex ? with_characters(step.pattern) : step.pattern, regex)},
                      {"behavior", behavior_name(step.behavior)},
                      {"invert", step.invert}});
    }
  }
  if (spec.byte_level) list.push_back(byte_level(adds_space));
  for (const NormalizerStep& step : spec.normalizer) {
    const bool instead = step.kind == NormalizerStep::Kind::prepend && prefixes_late(spec);
    if (instead) list.push_back(metaspace(step.content, PreTokenizerStep::Prepend::first, false));
  }
  return sequence("pretokenizers", std::move(list));
}

Object decoder_of(const TokenizerSpec& spec) {
  Object list = Object::array();
  for (const auto& [pattern, content] : spec.decode_replace) {
    list.push_back({{"type", "Replace"}, {"pattern", pattern_of(pattern, false)}, {"content", content}});
  }
  if (spec.byte_level) {
    list.push_back({{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}});
  } else {
    if (spec.byte_fallback) list.push_back({{"type", "ByteFallback"}});
    list.push_back({{"type", "Fuse"}});
  }
  if (spec.decode_strip > 0) list.push_back({{"type", "Strip"}, {"content", " "}, {"start", spec.decode_strip}, {"stop", 0}});
  return sequence("decoders", std::move(list));
}

Object post_processor_of(const TokenizerSpec& spec) {
  if (spec.prefix.empty() && spec.suffix.empty()) return spec.byte_level ? byte_level(true) : Object(nullptr);
  Object special = Object::object();
  const auto around = [&](const char* text, int type) {
    Object list = Object::array();
    const auto add = [&](TokenId id) {
      const std::string& content = spelling(spec, id);
      special[content] = {{"id", content}, {"ids", {id}}, {"tokens", {content}}};
      list.push_back({{"SpecialToken", {{"id", content}, {"type_id", type}}}});
    };
    for (const TokenId id : spec.prefix) add(id);
    list.push_back({{"Sequence", {{"id", text}, {"type_id", type}}}});
    for (const TokenId id : spec.suffix) add(id);
    return list;
  };
  const Object single = around("A", 0);
  Object pair = single;
  for (Object& item : around("B", 1)) pair.push_back(std::move(item));
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

std::string config_of(const TokenizerSpec& spec, bool adds_bos) {
  Object json;
  const auto name = [&](const char* key, TokenId id) { json[key] = id < 0 ? Object(nullptr) : Object(spelling(spec, id)); };
  json["tokenizer_class"] = "PreTrainedTokenizerFast";  // takes everything from tokenizer.json
  name("bos_token", spec.bos);
  name("eos_token", spec.eos);
  name("unk_token", spec.unknown);
  json["add_bos_token"] = adds_bos;
  json["add_eos_token"] = spec.eos >= 0 && !spec.suffix.empty() && spec.suffix.back() == spec.eos;
  json["clean_up_tokenization_spaces"] = false;
  if (!spec.chat_template.empty()) json["chat_template"] = spec.chat_template;
  return json.dump(2) + "\n";
}

void put(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace

void Tokenizer::write_folder(const std::filesystem::path& folder) const {
  const TokenizerSpec& spec = data_->spec;
  const std::filesystem::path path = folder / "tokenizer.json";
  const std::string place = printable(path.string(), 200);
  const auto part = [](const char* key, const Object& json) { return message(",\n  \"", key, "\": ", json.dump()); };
  put(path, message("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": ", added_tokens(spec),
                    part("normalizer", normalizer_of(spec)), part("pre_tokenizer", pre_tokenizer_of(spec, place)),
                    part("post_processor", post_processor_of(spec)), part("decoder", decoder_of(spec)), ",\n  \"model\": ",
                    model_of(*data_, place), "\n}\n"));
  put(folder / "tokenizer_config.json", config_of(spec, adds_bos()));
}

}  // namespace bantam::inline v0
