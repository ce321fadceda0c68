// Reads tokenizer.json: vocabulary, merges and added tokens of BPE models.
#include <algorithm>
#include <utility>

#include "bantam/core/error.hpp"
#include "text/loaders.hpp"
#include "text/tokenizer_data.hpp"

namespace bantam::inline v0 {

namespace {

/// Ids may have gaps (tokens taken out), but an id far beyond the number of entries is no vocabulary's.
std::size_t most_ids(std::size_t entries) { return 2 * entries + 65536; }

void read_vocab(const Json& vocab, TokenizerSpec& spec, std::string_view place) {
  expect(vocab.is_object(), place, "an object", vocab);
  const std::size_t limit = most_ids(vocab.size());
  std::size_t size = 0;
  for (const auto& [piece, value] : vocab.items()) {
    const auto id = static_cast<std::size_t>(token_id(value, message(place, " ", printable(piece))));
    if (id >= limit) fail(Errc::corrupt, place, ": id ", id, " in a vocabulary of ", vocab.size(), " entries");
    size = std::max(size, id + 1);
  }
  spec.pieces.resize(size);
  spec.types.resize(size, TokenType::unused);
  for (const auto& [piece, value] : vocab.items()) {
    const auto id = value.get<std::size_t>();
    if (spec.types[id] != TokenType::unused) {
      fail(Errc::corrupt, place, ": id ", id, " belongs to ", printable(spec.pieces[id]), " and to ", printable(piece));
    }
    spec.pieces[id] = piece;
    spec.types[id] = TokenType::normal;
  }
}

using Index = HashMap<std::string_view, TokenId>;

std::pair<std::string_view, std::string_view> parts_of_merge(const Json& merge, std::string_view place) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].string(), merge[1].string()};
  }
  if (merge.is_string()) {
    const std::string_view text = merge.string();
    const std::size_t space = text.find(' ');
    if (space != std::string_view::npos && space > 0 && space + 1 < text.size() &&
        text.find(' ', space + 1) == std::string_view::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  fail(Errc::corrupt, place, ": expected two pieces, found ", printable(merge.dump()));
}

void read_merges(const Json& merges, TokenizerSpec& spec, std::string_view place) {
  expect(merges.is_array(), place, "an array", merges);
  Index index;
  index.reserve(spec.pieces.size());
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    if (!spec.pieces[i].empty()) index.emplace(spec.pieces[i], static_cast<TokenId>(i));
  }
  spec.merges.reserve(merges.size());
  std::string whole;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto parts = parts_of_merge(merges[i], message(place, "[", i, "]"));
    whole.assign(parts.first).append(parts.second);
    const auto id_of = [&](std::string_view piece) {
      const auto found = index.find(piece);
      if (found == index.end()) fail(Errc::corrupt, place, "[", i, "]: ", printable(piece), " is not in the vocabulary");
      return found->second;
    };
    spec.merges.push_back({id_of(parts.first), id_of(parts.second), id_of(whole)});
  }
}

void refuse_other_models(const Json& model, std::string_view place) {
  const std::string type = text_or(model, "type", "", place);
  const bool bpe = type == "BPE" || (type.empty() && member(model, "merges"));
  if (bpe) return;
  // Unigram files older than the key "type" are told by their list of scores.
  const Json* vocab = member(model, "vocab");
  if (type == "Unigram" || (type.empty() && vocab && vocab->is_array())) {
    fail(Errc::unsupported, place, ": unigram tokenizers are not supported yet, only bpe");
  }
  if (type.empty()) fail(Errc::corrupt, place, ": expected \"type\" or \"merges\", found neither");
  fail(Errc::unsupported, place, ": expected a bpe tokenizer, found ", printable(type));
}

void read_model(const Json& model, TokenizerSpec& spec, std::string_view place) {
  expect(model.is_object(), place, "an object", model);
  refuse_other_models(model, place);
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!text_or(model, key, "", place).empty()) fail(Errc::unsupported, place, ".", key, " is not supported yet");
  }
  if (const Json* dropout = member(model, "dropout"); dropout && (!dropout->is_number() || dropout->get<double>() != 0)) {
    fail(Errc::unsupported, place, ".dropout: merges left out at random are not supported");
  }
  spec.byte_fallback = flag(model, "byte_fallback", false, place);
  spec.fuse_unknown = flag(model, "fuse_unk", false, place);
  spec.ignore_merges = flag(model, "ignore_merges", false, place);
  read_vocab(need(model, "vocab", place), spec, message(place, ".vocab"));
  read_merges(need(model, "merges", place), spec, message(place, ".merges"));
  if (const std::string unknown = text_or(model, "unk_token", "", place); !unknown.empty()) {
    const auto found = std::ranges::find(spec.pieces, unknown);
    if (found == spec.pieces.end()) fail(Errc::corrupt, place, ".unk_token: ", printable(unknown), " is not in the vocabulary");
    spec.unknown = static_cast<TokenId>(found - spec.pieces.begin());
  }
  if (!spec.byte_fallback) return;
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    if (byte_of_piece(spec.pieces[i]) >= 0) spec.types[i] = TokenType::byte;
  }
}

void read_added(const Json& list, TokenizerSpec& spec, std::string_view place) {
  expect(list.is_array(), place, "an array", list);
  const std::size_t limit = most_ids(spec.pieces.size() + list.size());
  // Owns its keys: adding tokens moves the pieces.
  HashMap<std::string, TokenId> known;
  for (std::size_t i = 0; !list.empty() && i < spec.pieces.size(); ++i) known.emplace(spec.pieces[i], static_cast<TokenId>(i));
  HashSet<TokenId> seen;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& json = list[i];
    const std::string at = message(place, "[", i, "]");
    const std::string& content = need_text(json, "content", at);
    AddedToken token;
    token.id = token_id(need(json, "id", at), message(at, ".id"));
    if (static_cast<std::size_t>(token.id) >= limit) {
      fail(Errc::corrupt, at, ": id ", token.id, " in a vocabulary of ", spec.pieces.size(), " entries");
    }
    token.special = flag(json, "special", false, at);
    token.normalized = flag(json, "normalized", !token.special, at);
    token.left_space = flag(json, "lstrip", false, at);
    token.right_space = flag(json, "rstrip", false, at);
    token.single_word = flag(json, "single_word", false, at);
    const TokenId before = content.empty() ? token.id : known.emplace(content, token.id).first->second;
    if (before != token.id) {
      fail(Errc::corrupt, at, ": ", printable(content), " is token ", before, " already, and token ", token.id, " here");
    }
    if (!seen.insert(token.id).second) fail(Errc::corrupt, at, ": token ", token.id, " is added twice");
    add_token(spec, token, content, at);
  }
}

}  // namespace

void add_token(TokenizerSpec& spec, const AddedToken& token, std::string_view content, std::string_view place) {
  if (content.empty()) fail(Errc::corrupt, place, ": the content is empty");
  const auto id = static_cast<std::size_t>(token.id);
  if (id >= spec.pieces.size()) {
    spec.pieces.resize(id + 1);
    spec.types.resize(id + 1, TokenType::unused);
    if (!spec.scores.empty()) spec.scores.resize(id + 1);
  }
  if (!spec.pieces[id].empty() && spec.pieces[id] != content) {
    fail(Errc::corrupt, place, ": token ", token.id, " is ", printable(spec.pieces[id]), " in the vocabulary and ", printable(content),
         " here");
  }
  spec.pieces[id] = content;
  spec.types[id] = token.special ? TokenType::control : TokenType::user_defined;
  spec.added.push_back(token);
}

TokenizerSpec spec_from_tokenizer_json(std::string_view text, std::string_view place) {
  const Json json = Json::parse(text, place);
  expect(json.is_object(), place, "an object", json);
  if (const std::string version = text_or(json, "version", "1.0", place); version != "1.0") {
    fail(Errc::unsupported, place, ": expected version 1.0, found ", printable(version));
  }
  TokenizerSpec spec;
  read_model(need(json, "model", place), spec, message(place, ": model"));
  if (const Json* added = member(json, "added_tokens")) read_added(*added, spec, message(place, ": added_tokens"));
  if (const Json* part = member(json, "normalizer")) read_normalizer(*part, spec, message(place, ": normalizer"));
  if (const Json* part = member(json, "pre_tokenizer")) read_pre_tokenizer(*part, spec, message(place, ": pre_tokenizer"));
  if (const Json* part = member(json, "decoder")) read_decoder(*part, spec, message(place, ": decoder"));
  if (const Json* part = member(json, "post_processor")) read_post_processor(*part, spec, message(place, ": post_processor"));
  if (spec.unknown >= 0) spec.types[static_cast<std::size_t>(spec.unknown)] = TokenType::unknown;
  spec.kind = spec.byte_level ? "bpe" : "spm";
  if (spec.byte_level) {
    std::vector<PreTokenizerStep> named = spec.pre_tokenizer;
    std::erase_if(named, [](const PreTokenizerStep& step) { return step.kind == PreTokenizerStep::Kind::prefix_space; });
    spec.pre = name_of_pre_tokenizer(named);
    if (spec.pre == "llama-3" && !spec.ignore_merges) spec.pre = "gpt-4";
  }
  guess_bos_and_eos(spec);
  add_known_ends(spec);
  return spec;
}

}  // namespace bantam::inline v0
