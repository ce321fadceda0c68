// Reads tokenizer.json: its added tokens, and its parts one after the other.
#include <algorithm>
#include <utility>

#include "bantam/core/error.hpp"
#include "text/loaders.hpp"
#include "text/tokenizer_data.hpp"

namespace bantam::inline v0 {

namespace {

void read_added(const Json& list, TokenizerSpec& spec, PieceIndex& known, std::string_view place) {
  expect(list.is_array(), place, "an array", list);
  const std::size_t limit = most_vocabulary_ids(spec.pieces.size() + list.size());
  if (!known.has_room_for(spec.pieces.size() + list.size())) known = index_of(spec.pieces, list.size());
  HashSet<TokenId> seen;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& json = list[i];
    const std::string at = message(place, "[", i, "]");
    const std::string content = need_text(json, "content", at);
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
    const TokenId before = known.find(content, spec.pieces);
    const bool spells_it = static_cast<std::size_t>(token.id) < spec.pieces.size() && spec.pieces(token.id) == content;
    if (before != PieceIndex::none && !spells_it) {
      fail(Errc::corrupt, at, ": ", printable(content), " is token ", before, " already, and token ", token.id, " here");
    }
    if (!seen.insert(token.id).second) fail(Errc::corrupt, at, ": token ", token.id, " is added twice");
    add_token(spec, token, content, at);
    known.add(token.id, spec.pieces);
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
  // What the model has already stays a piece of it, for the places where a token's conditions do not let it be found. Bytes stay bytes even
  // where training listed them among the special tokens.
  const bool of_model = spec.pieces[id] == content && (spec.types[id] == TokenType::byte || (spec.types[id] == TokenType::normal && !token.special));
  spec.pieces.set(id, content);
  if (!of_model) spec.types[id] = token.special ? TokenType::control : TokenType::user_defined;
  spec.added.push_back(token);
}

ReadTokenizer read_tokenizer_json(std::string_view text, std::string_view place, std::size_t long_from) {
  TokenizerSpec spec;
  LongLists lists;
  const Json json = text.size() < long_from ? Json::parse(text, place) : read_long_json(text, place, lists);
  expect(json.is_object(), place, "an object", json);
  if (const std::string version = text_or(json, "version", "1.0", place); version != "1.0") {
    fail(Errc::unsupported, place, ": expected version 1.0, found ", printable(version));
  }
  PieceIndex index = read_model(need(json, "model", place), lists, spec, message(place, ": model"));
  if (const Json* added = member(json, "added_tokens")) read_added(*added, spec, index, message(place, ": added_tokens"));
  if (const Json* part = member(json, "normalizer")) read_normalizer(*part, spec, message(place, ": normalizer"));
  if (const Json* part = member(json, "pre_tokenizer")) read_pre_tokenizer(*part, spec, message(place, ": pre_tokenizer"));
  read_decoder(member(json, "decoder"), spec, message(place, ": decoder"));
  if (const Json* part = member(json, "post_processor")) read_post_processor(*part, spec, message(place, ": post_processor"));
  if (spec.unknown >= 0) spec.types[static_cast<std::size_t>(spec.unknown)] = TokenType::unknown;
  if (spec.kind == "bpe" && !spec.byte_level) spec.kind = "spm";
  if (spec.kind == "bpe") {
    std::vector<PreTokenizerStep> named = spec.pre_tokenizer;
    std::erase_if(named, [](const PreTokenizerStep& step) { return step.kind == PreTokenizerStep::Kind::prefix_space; });
    spec.pre = name_of_pre_tokenizer(named);
    if (spec.pre == "llama-3" && !spec.ignore_merges) spec.pre = "gpt-4";
  }
  guess_bos_and_eos(spec);
  add_known_ends(spec);
  return {std::move(spec), std::move(index)};
}

}  // namespace bantam::inline v0
