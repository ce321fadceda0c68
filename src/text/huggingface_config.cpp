// Reads the files beside a tokenizer: tokenizer_config.json, special_tokens_map.json, added_tokens.json, the chat template.
#include <algorithm>
#include <charconv>

#include "bantam/core/error.hpp"
#include "bantam/io/file.hpp"
#include "io/config_text.hpp"
#include "text/loaders.hpp"

namespace bantam::inline v0 {

namespace {

/// Real ones have below 100 KB; chat templates included.
constexpr std::size_t largest_config = std::size_t{16} << 20;

/// An empty object where the file does not exist.
Json read_optional(const std::filesystem::path& path) {
  if (path_kind(path) == PathKind::nothing) return Json::object();
  const std::string place = printable(path.string(), 200);
  Json json = Json::parse(detail::read_config_text(path, largest_config), place);
  expect(json.is_object(), place, "an object", json);
  return json;
}

/// A token by its text: "<s>", or {"content": "<s>", ...}. -1 when there is no such token in the vocabulary.
TokenId named(const Json& value, const TokenizerSpec& spec, std::string_view place) {
  const Json& text = value.is_object() ? need(value, "content", place) : value;
  expect(text.is_string(), place, "a string", text);
  return spec.pieces.find(text.string());
}

void read_named(const Json& config, const Json& map, const char* key, const TokenizerSpec& spec, TokenId& id, std::string_view place) {
  if (config.contains(key)) {
    const Json* value = member(config, key);
    id = value ? named(*value, spec, message(place, ": ", key)) : -1;
  } else if (const Json* value = member(map, key)) {
    id = named(*value, spec, message("special_tokens_map.json: ", key));
  }
}

/// A string, or a list of {"name", "template"}: "default", else the first.
std::string read_template(const Json& value, std::string_view place) {
  if (value.is_string()) return std::string(value.string());
  expect(value.is_array(), place, "a string or a list of templates", value);
  std::string first;
  for (const Json& item : value) {
    const std::string& text = need_text(item, "template", place);
    if (text_or(item, "name", "", place) == "default") return text;
    if (first.empty()) first = text;
  }
  return first;
}

/// Tokens that a slow tokenizer adds to its SentencePiece model.
void read_added(const std::filesystem::path& folder, const Json& config, TokenizerSpec& spec, std::string_view place) {
  const std::size_t limit = 2 * spec.pieces.size() + 65536;
  const auto add = [&](TokenId id, const std::string& content, bool special, std::string_view at) {
    if (static_cast<std::size_t>(id) >= limit) fail(Errc::corrupt, at, ": id ", id, " in a vocabulary of ", spec.pieces.size());
    const bool known = static_cast<std::size_t>(id) < spec.pieces.size() && spec.pieces[static_cast<std::size_t>(id)] == content;
    if (!known) add_token(spec, {.id = id, .special = special}, content, at);
  };
  if (const Json* decoder = member(config, "added_tokens_decoder")) {
    const std::string at = message(place, ": added_tokens_decoder");
    expect(decoder->is_object(), at, "an object", *decoder);
    for (const auto& [key, token] : decoder->items()) {
      TokenId id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc{} || end != key.data() + key.size() || id < 0) fail(Errc::corrupt, at, ": bad id ", printable(key));
      add(id, need_text(token, "content", at), flag(token, "special", false, at), at);
    }
  }
  const Json more = read_optional(folder / "added_tokens.json");
  for (const auto& [content, id] : more.items()) add(token_id(id, "added_tokens.json"), std::string(content), false, "added_tokens.json");
}

/// Tokens that end a reply: generation_config.json's eos_token_id, a number or a list, or where it has none config.json's. What is no control token
/// is passed over: configs of converted models have the defaults of others.
void read_ends(const std::filesystem::path& folder, TokenizerSpec& spec) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const Json config = read_optional(folder / name);
    const Json* value = member(config, "eos_token_id");
    if (value == nullptr) continue;
    std::vector<bool> ends(spec.pieces.size());
    const auto add = [&](const Json& id) {
      const std::size_t at = is_token_id(id) ? static_cast<std::size_t>(token_id(id, name)) : ends.size();
      if (at < ends.size() && spec.types[at] == TokenType::control) ends[at] = true;
    };
    if (value->is_array()) {
      for (const Json& id : *value) add(id);
    } else {
      add(*value);
    }
    for (const TokenId id : spec.ends) ends[static_cast<std::size_t>(id)] = false;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i]) spec.ends.push_back(static_cast<TokenId>(i));
    }
    return;
  }
}

}  // namespace

void apply_folder(const std::filesystem::path& folder, TokenizerSpec& spec, bool sentencepiece) {
  const std::string place = printable((folder / "tokenizer_config.json").string(), 200);
  const Json config = read_optional(folder / "tokenizer_config.json");
  const Json map = read_optional(folder / "special_tokens_map.json");
  if (sentencepiece) read_added(folder, config, spec, place);
  const TokenId first = spec.prefix.empty() ? -1 : spec.prefix.front();
  read_named(config, map, "bos_token", spec, spec.bos, place);
  read_named(config, map, "eos_token", spec, spec.eos, place);
  read_named(config, map, "unk_token", spec, spec.unknown, place);
  if (spec.bos < 0) spec.bos = first;
  if (member(config, "add_bos_token")) set_adds_bos(spec, flag(config, "add_bos_token", false, place));
  if (member(config, "add_eos_token")) set_adds_eos(spec, flag(config, "add_eos_token", false, place));
  if (const Json* value = member(config, "chat_template")) spec.chat_template = read_template(*value, message(place, ": chat_template"));
  if (path_kind(folder / "chat_template.jinja") != PathKind::nothing) {
    spec.chat_template = read_text_file(folder / "chat_template.jinja", largest_config);
  }
  read_ends(folder, spec);
  add_known_ends(spec);
}

}  // namespace bantam::inline v0
