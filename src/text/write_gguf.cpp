// Writes the tokenizer.ggml.* keys of GGUF files.
#include <algorithm>

#include "bantam/core/error.hpp"
#include "bantam/io/gguf_writer.hpp"
#include "text/base64.hpp"
#include "text/loaders.hpp"
#include "text/tokenizer_data.hpp"
#include "text/write_huggingface.hpp"

namespace bantam::inline v0 {

namespace {

[[noreturn]] void no_words_for(std::string_view what) {
  fail(Errc::unsupported, "tokenizer: ", what, ": GGUF has no words for it; what works: SentencePiece's spaces and the byte-level families that GGUF names");
}

/// What a SentencePiece vocabulary does to spaces.
struct Spaces {
  bool prefix = false;    ///< one is put before a text
  bool collapse = false;  ///< several become one
  std::string charsmap;   ///< unigram: in bytes
};

Spaces spaces_of(const TokenizerSpec& spec) {
  using Step = NormalizerStep::Kind;
  Spaces spaces;
  bool replaced = false;
  for (const NormalizerStep& step : spec.normalizer) {
    if (step.kind == Step::prepend && step.content == low_line) {
      spaces.prefix = true;
    } else if (step.kind == Step::replace && step.pattern == " " && step.content == low_line) {
      replaced = true;
    } else if (step.kind == Step::collapse_spaces) {
      spaces.collapse = true;
    } else if (step.kind == Step::replace_regex && step.pattern == " {2,}" && (step.content == " " || step.content == low_line)) {
      spaces.collapse = true;  // as Hugging Face's conversions of such models say it
    } else if (spec.kind == "unigram" && (step.kind == Step::charsmap || step.kind == Step::grapheme_charsmap) && spaces.charsmap.empty()) {
      spaces.charsmap = bytes_of_base64(step.content).value_or(std::string());
    } else {
      no_words_for("a normalizer");
    }
  }
  for (const PreTokenizerStep& step : spec.pre_tokenizer) {
    // T5's: white space goes, which the model then does itself.
    if (spec.kind == "unigram" && step.kind == PreTokenizerStep::Kind::split && step.behavior == PreTokenizerStep::Behavior::removed && step.pattern == "\\s") {
      spaces.collapse = true;
      continue;
    }
    const bool cuts = step.cut && spec.kind != "unigram";
    if (step.kind != PreTokenizerStep::Kind::metaspace || step.pattern != low_line || cuts) no_words_for("a pre-tokenizer");
    spaces.prefix = step.prepend != PreTokenizerStep::Prepend::never;
    replaced = true;
  }
  if (!replaced) no_words_for("spaces that stay spaces");
  return spaces;
}

/// Gemma 4's: merges over whole texts, whose spaces are U+2581 before anything could split them at spaces.
bool is_gemma(const TokenizerSpec& spec) {
  using Step = NormalizerStep::Kind;
  const auto splits_nothing = [](const PreTokenizerStep& step) { return step.kind == PreTokenizerStep::Kind::split_literal && step.pattern == " "; };
  return spec.kind == "spm" && spec.byte_fallback && spec.fuse_unknown && spec.scores.empty() && !spec.merges.empty() && spec.normalizer.size() == 1 &&
         spec.normalizer[0].kind == Step::replace && spec.normalizer[0].pattern == " " && spec.normalizer[0].content == low_line &&
         !spec.pre_tokenizer.empty() && std::ranges::all_of(spec.pre_tokenizer, splits_nothing);
}

/// SentencePiece merges the pair whose piece has the highest score. A list of merges gives each piece the place of the
/// first pair that makes it.
std::vector<float> scores_of(const TokenizerSpec& spec) {
  if (!spec.scores.empty()) return {spec.scores.begin(), spec.scores.end()};
  std::vector<float> scores(spec.pieces.size(), 0.0f);
  for (std::size_t rank = spec.merges.size(); rank-- > 0;) {
    scores[static_cast<std::size_t>(spec.merges[rank][2])] = -static_cast<float>(rank + 1);
  }
  return scores;
}

/// GGUF's name of the family; what the reader knows of it must be what this tokenizer does.
std::string family_of(const TokenizerSpec& spec) {
  for (const NormalizerStep& step : spec.normalizer) {
    // Converters leave it out for families that have it (Qwen2): readers take text as it comes.
    if (step.kind != NormalizerStep::Kind::nfc) no_words_for("a normalizer");
  }
  if (!spec.continuing.empty() || !spec.word_end.empty()) no_words_for("pieces that say where in a word they stand");
  const std::string_view name = gguf_name_of_pre_tokenizer(spec.pre_tokenizer, spec.ignore_merges);
  if (name.empty()) no_words_for("a pre-tokenizer");
  return std::string(name);
}

/// GGUF has BERT's pieces with U+2581 before what begins a word and nothing before what continues it, and knows BERT's text alone.
void write_wordpiece(GgufWriter& file, const TokenizerSpec& spec, std::vector<std::string>& pieces) {
  using Step = NormalizerStep::Kind;
  bool lowercase = false, strips = false;
  for (const NormalizerStep& step : spec.normalizer) {
    lowercase = lowercase || step.kind == Step::lowercase;
    strips = strips || step.kind == Step::drop_nonspacing;
    const bool known = step.kind == Step::lowercase || step.kind == Step::drop_nonspacing || step.kind == Step::nfd || step.kind == Step::clean ||
                       step.kind == Step::space_ideographs;
    if (!known) no_words_for("a normalizer");
  }
  const std::vector<PreTokenizerStep> bert = bert_pre_tokenizer();
  const bool same = std::ranges::equal(spec.pre_tokenizer, bert, [](const PreTokenizerStep& a, const PreTokenizerStep& b) {
    return a.kind == b.kind && a.pattern == b.pattern && a.behavior == b.behavior && a.invert == b.invert;
  });
  if (!same) no_words_for("a pre-tokenizer");
  file.key("tokenizer.ggml.model", "bert");
  file.key("tokenizer.ggml.pre", "default");
  file.key("tokenizer.ggml.normalizer.lowercase", lowercase);
  file.key("tokenizer.ggml.normalizer.strip_accents", strips);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const bool model = spec.types[i] == TokenType::normal && !pieces[i].empty();
    if (model && !spec.continuing.empty() && pieces[i].starts_with(spec.continuing) && pieces[i] != spec.continuing) {
      pieces[i].erase(0, spec.continuing.size());
    } else if (model) {
      pieces[i].insert(0, low_line);
    }
  }
}

}  // namespace

void Tokenizer::write_gguf(GgufWriter& file, std::int64_t vocab) const {
  const TokenizerSpec& spec = data_->spec;
  std::vector<std::string> pieces(spec.pieces.begin(), spec.pieces.end());
  std::vector<std::int32_t> types;
  for (const TokenType type : spec.types) types.push_back(static_cast<std::int32_t>(type));
  for (const AddedToken& token : spec.added) {
    std::int32_t& type = types[static_cast<std::size_t>(token.id)];
    if (type == static_cast<std::int32_t>(TokenType::normal)) type = static_cast<std::int32_t>(token.special ? TokenType::control : TokenType::user_defined);
  }
  std::vector<float> scores;
  if (spec.kind == "wordpiece") {
    write_wordpiece(file, spec, pieces);
  } else if (spec.kind == "wordlevel" || (spec.byte_level && spec.kind != "bpe")) {
    no_words_for("a model of kind " + spec.kind);
  } else if (spec.byte_level) {
    file.key("tokenizer.ggml.model", "gpt2");
    file.key("tokenizer.ggml.pre", family_of(spec));
  } else if (is_gemma(spec)) {
    file.key("tokenizer.ggml.model", "gemma4");
    file.key("tokenizer.ggml.add_space_prefix", false);
    scores.assign(spec.pieces.size(), 0.0f);
  } else {
    if (!spec.continuing.empty() || !spec.word_end.empty()) no_words_for("pieces that say where in a word they stand");
    const Spaces spaces = spaces_of(spec);
    file.key("tokenizer.ggml.model", spec.kind == "unigram" ? "t5" : "llama");
    file.key("tokenizer.ggml.pre", "default");
    file.key("tokenizer.ggml.add_space_prefix", spaces.prefix);
    if (spaces.collapse) file.key("tokenizer.ggml.remove_extra_whitespaces", true);
    if (!spaces.charsmap.empty()) file.key("tokenizer.ggml.precompiled_charsmap", std::vector<std::uint8_t>(spaces.charsmap.begin(), spaces.charsmap.end()));
    scores = scores_of(spec);
  }
  // The embedding may have rows that no token uses; readers want a piece for each.
  for (std::size_t i = 0; i < static_cast<std::size_t>(vocab); ++i) {
    if (i >= pieces.size()) {
      pieces.emplace_back();
      types.push_back(static_cast<std::int32_t>(TokenType::unused));
      if (!scores.empty()) scores.push_back(0);
    }
    if (pieces[i].empty()) pieces[i] = message("[PAD", i, "]");
  }
  file.key("tokenizer.ggml.tokens", pieces);
  if (!scores.empty()) file.key("tokenizer.ggml.scores", scores);
  file.key("tokenizer.ggml.token_type", types);
  if (spec.byte_level || is_gemma(spec)) {
    std::vector<std::string> merges;
    for (const auto& [left, right] : detail::pairs_in_order(*data_, "tokenizer")) merges.push_back(message(spec.pieces(left), ' ', spec.pieces(right)));
    file.key("tokenizer.ggml.merges", merges);
  }
  const auto id = [&](std::string_view name, TokenId token) {
    if (token >= 0) file.key(name, static_cast<std::uint32_t>(token));
  };
  id("tokenizer.ggml.bos_token_id", spec.bos);
  id("tokenizer.ggml.eos_token_id", spec.eos);
  id("tokenizer.ggml.unknown_token_id", spec.unknown);
  // Tokens that end a reply and that nobody would know by their names.
  const std::vector<TokenId> named = known_ends(spec);
  std::vector<TokenId> more;
  std::ranges::copy_if(spec.ends, std::back_inserter(more), [&](TokenId end) { return end != spec.eos && std::ranges::find(named, end) == named.end(); });
  for (std::size_t i = 0; const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (i < more.size()) id(key, more[i++]);
  }
  if (spec.kind == "wordpiece") {
    id("tokenizer.ggml.cls_token_id", spec.prefix.empty() ? -1 : spec.prefix.front());
    id("tokenizer.ggml.seperator_token_id", spec.suffix.empty() ? -1 : spec.suffix.back());
    file.key("tokenizer.ggml.add_sep_token", !spec.suffix.empty());
  } else if (spec.between.size() == 2 && spec.between[0] == spec.between[1]) {
    id("tokenizer.ggml.seperator_token_id", spec.between[1]);
  }
  file.key("tokenizer.ggml.add_bos_token", adds_bos());
  file.key("tokenizer.ggml.add_eos_token", spec.eos >= 0 && !spec.suffix.empty() && spec.suffix.back() == spec.eos);
  if (!spec.chat_template.empty()) file.key("tokenizer.chat_template", spec.chat_template);
}

}  // namespace bantam::inline v0
