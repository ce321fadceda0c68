// Writes tokenizer.json and tokenizer_config.json, the files that Hugging Face's loaders read.
#include "text/write_huggingface.hpp"

#include <algorithm>
#include <array>

#include "bantam/core/error.hpp"
#include "bantam/io/file.hpp"
#include "text/tokenizer_data.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

namespace {

/// How many pieces are the model's: readers number the added tokens behind them in order.
std::size_t count_of_model(const TokenizerSpec& spec) {
  std::vector<bool> behind(spec.pieces.size());
  for (std::size_t i = 0; i < behind.size(); ++i) behind[i] = spec.pieces[i].empty();
  for (const AddedToken& token : spec.added) {
    const auto i = static_cast<std::size_t>(token.id);
    const bool alone = spec.types[i] == TokenType::control || spec.types[i] == TokenType::user_defined;
    if (alone && !detail::needs_no_mention(spec, token)) behind[i] = true;
  }
  std::size_t count = behind.size();
  while (count > 0 && behind[count - 1]) --count;
  return count;
}

/// The vocabulary as an object, in order of ids. Where a spelling comes twice, the id that looking it up gives.
std::string vocabulary(const Tokenizer::Data& data) {
  std::string text = "{";
  const std::size_t count = count_of_model(data.spec);
  for (std::size_t i = 0; i < count; ++i) {
    if (data.id_of(data.spec.pieces[i]) != static_cast<TokenId>(i)) continue;
    text += message(text.size() > 1 ? ",\n" : "\n", "      ", Json::quoted(data.spec.pieces[i]), ": ", i);
  }
  return text + "\n    }";
}

std::string merge_list(const Tokenizer::Data& data, std::string_view place) {
  const std::vector<std::array<TokenId, 2>> pairs = detail::pairs_in_order(data, place);
  const auto has_space = [&](TokenId id) { return data.spec.pieces(id).find(' ') != std::string::npos; };
  // Older readers know only "left right", which says nothing certain about pieces with spaces.
  const bool apart = std::ranges::any_of(pairs, [&](const auto& pair) { return has_space(pair[0]) || has_space(pair[1]); });
  std::string text = "[";
  for (const auto& [left, right] : pairs) {
    const std::string_view a = data.spec.pieces(left);
    const std::string_view b = data.spec.pieces(right);
    text += text.size() > 1 ? ",\n      " : "\n      ";
    text += apart ? message('[', Json::quoted(a), ", ", Json::quoted(b), ']') : Json::quoted(message(a, ' ', b));
  }
  return text + "\n    ]";
}

std::string bpe_model(const Tokenizer::Data& data, std::string_view place) {
  const TokenizerSpec& spec = data.spec;
  // A byte-level model has a piece for everything; what its config calls unknown may be any token.
  const bool names_unknown = spec.unknown >= 0 && (!spec.byte_level || spec.types[static_cast<std::size_t>(spec.unknown)] == TokenType::unknown);
  const auto or_null = [](const std::string& text) { return text.empty() ? std::string("null") : Json::quoted(text); };
  return message("{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": ", names_unknown ? Json::quoted(spec.pieces(spec.unknown)) : "null",
                 ",\n    \"continuing_subword_prefix\": ", or_null(spec.continuing), ",\n    \"end_of_word_suffix\": ", or_null(spec.word_end),
                 ",\n    \"fuse_unk\": ", spec.fuse_unknown, ",\n    \"byte_fallback\": ", spec.byte_fallback, ",\n    \"ignore_merges\": ", spec.ignore_merges,
                 ",\n    \"vocab\": ", vocabulary(data), ",\n    \"merges\": ", merge_list(data, place), "\n  }");
}

/// Scores are written as they are; readers take the lowest of them for what is unknown.
std::string unigram_model(const TokenizerSpec& spec) {
  std::string text = message("{\n    \"type\": \"Unigram\",\n    \"unk_id\": ", spec.unknown < 0 ? std::string("null") : std::to_string(spec.unknown),
                             ",\n    \"byte_fallback\": ", spec.byte_fallback, ",\n    \"vocab\": [");
  const std::size_t count = count_of_model(spec);
  for (std::size_t i = 0; i < count; ++i) {
    text += message(i == 0 ? "\n      [" : ",\n      [", Json::quoted(spec.pieces[i]), ", ", Json(spec.scores[i]).dump(), "]");
  }
  return text + "\n    ]\n  }";
}

std::string word_model(const Tokenizer::Data& data, std::string_view place) {
  const TokenizerSpec& spec = data.spec;
  if (data.model == TokenModel::wordlevel && (spec.fuse_unknown || spec.byte_fallback)) {
    fail(Errc::unsupported, place, ": a word model whose unknown words are bytes or one token a run, for which tokenizer.json has no words");
  }
  const std::string unknown = Json::quoted(spec.unknown < 0 ? std::string_view() : spec.pieces(spec.unknown));
  if (data.model == TokenModel::wordlevel) {
    return message("{\n    \"type\": \"WordLevel\",\n    \"unk_token\": ", unknown, ",\n    \"vocab\": ", vocabulary(data), "\n  }");
  }
  // The format knows no word that is too long to be one.
  const std::uint32_t longest = spec.longest_word > 0 ? spec.longest_word : 0x7fffffff;
  return message("{\n    \"type\": \"WordPiece\",\n    \"unk_token\": ", unknown, ",\n    \"continuing_subword_prefix\": ", Json::quoted(spec.continuing),
                 ",\n    \"max_input_chars_per_word\": ", longest, ",\n    \"vocab\": ", vocabulary(data), "\n  }");
}

std::string model_of(const Tokenizer::Data& data, std::string_view place) {
  switch (data.model) {
    case TokenModel::merges: return bpe_model(data, place);
    case TokenModel::unigram: return unigram_model(data.spec);
    case TokenModel::wordpiece:
    case TokenModel::wordlevel: break;
  }
  return word_model(data, place);
}

std::string added_tokens(const TokenizerSpec& spec) {
  std::vector<AddedToken> tokens = spec.added;
  std::erase_if(tokens, [&](const AddedToken& token) { return detail::needs_no_mention(spec, token); });
  std::ranges::sort(tokens, {}, &AddedToken::id);
  std::string text = "[";
  for (const AddedToken& token : tokens) {
    const Json json = {{"id", token.id},
                         {"content", spec.pieces(token.id)},
                         {"single_word", token.single_word},
                         {"lstrip", token.left_space},
                         {"rstrip", token.right_space},
                         {"normalized", token.normalized},
                         {"special", token.special}};
    text += message(text.size() > 1 ? ",\n    " : "\n    ", json.dump());
  }
  return text + (tokens.empty() ? "]" : "\n  ]");
}

std::string config_of(const TokenizerSpec& spec, bool adds_bos) {
  Json json;
  const auto name = [&](const char* key, TokenId id) { json[key] = id < 0 ? Json(nullptr) : Json(spec.pieces(id)); };
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

std::vector<std::array<TokenId, 2>> detail::pairs_in_order(const Tokenizer::Data& data, std::string_view place) {
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
    mergeable[i] = merges && !spec.pieces[i].empty() && data.id_of(spec.pieces[i]) == static_cast<TokenId>(i);
  }
  const LargeVector<std::string_view> symbols(spec.pieces.begin(), spec.pieces.end());
  LargeVector<Merge> merges = merges_from_scores(symbols, spec.scores, mergeable, place);
  const auto left_bytes = [&](const Merge& merge) { return symbols[static_cast<std::size_t>(merge.left)].size(); };
  std::ranges::stable_sort(merges, [&](const Merge& a, const Merge& b) {
    return a.rank != b.rank ? a.rank < b.rank : left_bytes(a) > left_bytes(b);
  });
  pairs.reserve(merges.size());
  for (const Merge& merge : merges) pairs.push_back({merge.left, merge.right});
  return pairs;
}

bool detail::needs_no_mention(const TokenizerSpec& spec, const AddedToken& token) {
  const std::string_view content = spec.pieces(token.id);
  return token.verbatim && spec.pre_tokenizer.empty() && utf8::decode(content, 0).length == content.size();
}

void Tokenizer::write_folder(const std::filesystem::path& folder) const {
  const TokenizerSpec& spec = data_->spec;
  const std::filesystem::path path = folder / "tokenizer.json";
  const std::string place = printable(path.string(), 200);
  const auto part = [](const char* key, const Json& json) { return message(",\n  \"", key, "\": ", json.dump()); };
  put(path, message("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": ", added_tokens(spec),
                    part("normalizer", detail::normalizer_of(spec)), part("pre_tokenizer", detail::pre_tokenizer_of(spec, place)),
                    part("post_processor", detail::post_processor_of(spec)), part("decoder", detail::decoder_of(spec)), ",\n  \"model\": ",
                    model_of(*data_, place), "\n}\n"));
  put(folder / "tokenizer_config.json", config_of(spec, adds_bos()));
}

}  // namespace bantam::inline v0
