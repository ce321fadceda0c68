// Writes what surrounds the model in a tokenizer.json: normalizer, pre-tokenizer, decoder, post-processor.
#include <algorithm>
#include <charconv>
#include <utility>

#include "bantam/core/error.hpp"
#include "text/utf8.hpp"
#include "text/write_huggingface.hpp"

namespace bantam::inline v0::detail {

namespace {

Json pattern_of(const std::string& pattern, bool regex) { return {{regex ? "Regex" : "String", pattern}}; }

Json sequence(const char* key, Json list) {
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

/// BERT's normalizer with one of its habits.
Json bert(std::string_view habit) {
  Json json = {{"type", "BertNormalizer"}, {"clean_text", false}, {"handle_chinese_chars", false}, {"strip_accents", false}, {"lowercase", false}};
  json[habit] = true;
  return json;
}

void add_normalizer(Json& list, const NormalizerStep& step) {
  using Kind = NormalizerStep::Kind;
  const auto replace = [&](Json pattern, const std::string& content) {
    list.push_back({{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", content}});
  };
  switch (step.kind) {
    case Kind::prepend: list.push_back({{"type", "Prepend"}, {"prepend", step.content}}); break;
    case Kind::append: fail(Errc::unsupported, "tokenizer: ", printable(step.content), " behind each text: tokenizer.json has no words for it");
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
    case Kind::clean: list.push_back(bert("clean_text")); break;
    case Kind::space_ideographs: list.push_back(bert("handle_chinese_chars")); break;
    case Kind::drop_marks: list.push_back({{"type", "StripAccents"}}); break;
    // Decomposes as well: such a step comes after NFD.
    case Kind::drop_nonspacing: list.push_back(bert("strip_accents")); break;
    case Kind::nmt: list.push_back({{"type", "Nmt"}}); break;
    case Kind::charsmap:
    case Kind::grapheme_charsmap: list.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", step.content}}); break;
    case Kind::spell_bytes: list.push_back({{"type", "ByteLevel"}}); break;
  }
}

/// tokenizer.json puts the spelling of an added token through the normalizer, SentencePiece that of its own symbols not:
/// where there are some, the prefix of a text is left to the pre-tokenizer. Texts that begin with
/// a space or such a symbol then get none, as in Hugging Face's own conversions of such models.
bool prefixes_late(const TokenizerSpec& spec) {
  return std::ranges::any_of(spec.added, [&](const AddedToken& token) { return token.verbatim && !needs_no_mention(spec, token); });
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

Json metaspace(const std::string& replacement, PreTokenizerStep::Prepend prepend, bool cut) {
  const char* scheme = prepend == PreTokenizerStep::Prepend::always  ? "always"
                       : prepend == PreTokenizerStep::Prepend::never ? "never"
                                                                     : "first";
  return {{"type", "Metaspace"}, {"replacement", replacement}, {"prepend_scheme", scheme}, {"split", cut}};
}

Json byte_level(bool adds_space) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", adds_space}, {"trim_offsets", true}, {"use_regex", false}};
}

}  // namespace

Json normalizer_of(const TokenizerSpec& spec) {
  Json list = Json::array();
  for (const NormalizerStep& step : spec.normalizer) {
    if (step.kind == NormalizerStep::Kind::prepend && prefixes_late(spec)) continue;
    add_normalizer(list, step);
  }
  return sequence("normalizers", std::move(list));
}

Json pre_tokenizer_of(const TokenizerSpec& spec, std::string_view place) {
  using Kind = PreTokenizerStep::Kind;
  Json list = Json::array();
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
      Json json = byte_level(true);
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

Json decoder_of(const TokenizerSpec& spec) {
  const DecodeSpec& decode = spec.decode;
  Json list = Json::array();
  // CTC first: it looks at tokens. What it puts in the place of some is among the replacements; nothing is spelled like U+0001.
  if (decode.collapse_repeats) {
    list.push_back({{"type", "CTC"}, {"pad_token", "\x01"}, {"word_delimiter_token", decode.cleanup ? " " : "\x01"}, {"cleanup", decode.cleanup}});
  }
  for (std::size_t i = 0; i < decode.replace.size(); ++i) {
    const DecodeReplace& step = decode.replace[i];
    if (step.where != DecodeReplace::Where::everywhere) {
      // Only these decoders look where a token stands, and put a space elsewhere.
      if (i + 1 < decode.replace.size() && decode.replace[i + 1].pattern == step.pattern) ++i;
      list.push_back(step.where == DecodeReplace::Where::first ? metaspace(step.pattern, PreTokenizerStep::Prepend::always, true)
                                                               : Json{{"type", "BPEDecoder"}, {"suffix", step.pattern}});
      continue;
    }
    list.push_back({{"type", "Replace"}, {"pattern", pattern_of(step.pattern, step.regex)}, {"content", step.content}});
  }
  // Without a decoder the format has spaces between tokens.
  if (decode.join && decode.continuing.empty() && !decode.cleanup && list.empty()) return nullptr;
  if (decode.join) list.push_back({{"type", "WordPiece"}, {"prefix", decode.continuing}, {"cleanup", decode.cleanup}});
  if (spec.byte_level || spec.spelled_bytes) {
    list.push_back({{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}});
  } else {
    if (spec.byte_fallback) list.push_back({{"type", "ByteFallback"}});
    list.push_back({{"type", "Fuse"}});
  }
  if (decode.strip > 0 || decode.strip_end > 0) {
    list.push_back({{"type", "Strip"}, {"content", decode.strip_of}, {"start", decode.strip}, {"stop", decode.strip_end}});
  }
  return sequence("decoders", std::move(list));
}

Json post_processor_of(const TokenizerSpec& spec) {
  if (spec.prefix.empty() && spec.suffix.empty()) return spec.byte_level ? byte_level(true) : Json(nullptr);
  Json special = Json::object();
  const auto add = [&](Json& list, const std::vector<TokenId>& ids, int type) {
    for (const TokenId id : ids) {
      const std::string_view content = spec.pieces(id);
      special[content] = {{"id", content}, {"ids", {id}}, {"tokens", {content}}};
      list.push_back({{"SpecialToken", {{"id", content}, {"type_id", type}}}});
    }
  };
  const auto add_text = [&](Json& list, const char* text, int type) { list.push_back({{"Sequence", {{"id", text}, {"type_id", type}}}}); };
  Json single = Json::array(), pair = Json::array();
  add(single, spec.prefix, 0);
  add_text(single, "A", 0);
  add(single, spec.suffix, 0);
  const bool said = !spec.between.empty() || !spec.pair_suffix.empty();
  const int second = !said || spec.types_pairs ? 1 : 0;
  add(pair, spec.prefix, 0);
  add_text(pair, "A", 0);
  add(pair, said ? spec.between : spec.suffix, 0);
  if (!said) add(pair, spec.prefix, 1);
  add_text(pair, "B", second);
  add(pair, said ? spec.pair_suffix : spec.suffix, second);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

}  // namespace bantam::inline v0::detail
