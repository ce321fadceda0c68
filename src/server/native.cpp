// POST /completion, as llama.cpp's server has it, and the shape of its answers.
#include <algorithm>

#include "server/completions.hpp"

namespace bantam::server {

namespace {

/// llama.cpp's own shape.
class NativeWriting final : public Writing {
 public:
  NativeWriting(App& app, std::shared_ptr<Exchange> exchange, NativeAsked native)
      : Writing(app, std::move(exchange), std::move(native.asked)),
        texts_(asked().texts.prompts.size() * static_cast<std::size_t>(asked().texts.count)),
        several_(native.several || texts_.size() > 1),
        fields_(std::move(native.fields)) {}

 private:
  [[nodiscard]] Json probabilities_of(const std::vector<DrawnToken>& tokens) const {
    Json all = Json::array();
    for (const DrawnToken& token : tokens) {
      Json entry = logprob_entry(token);
      entry["id"] = static_cast<std::int64_t>(token.id);
      for (std::size_t i = 0; i < token.top.size(); ++i) entry["top_logprobs"][i]["id"] = static_cast<std::int64_t>(token.top[i].first);
      all.push_back(std::move(entry));
    }
    return all;
  }

  /// What stands in every event; the last one says more.
  [[nodiscard]] Json piece_of(std::size_t text) {
    const Written& w = texts_[text];
    Json json = Json::object();
    json["index"] = text;
    json["content"] = w.text;
    json["tokens"] = ids_of(w.tokens);
    json["id_slot"] = w.stats.place;
    json["stop"] = w.end != TextEnd::running;
    json["tokens_predicted"] = w.stats.generated_tokens;
    json["tokens_evaluated"] = w.stats.prompt_tokens;
    if (asked().logprobs) json["completion_probabilities"] = probabilities_of(w.tokens);
    if (w.end == TextEnd::running) {
      if (asked().timings && !w.tokens.empty()) json["timings"] = timings(w.stats);
      return json;
    }
    json["model"] = app().options.name;
    json["prompt"] = app().tokenizer().decode(asked().texts.prompts[text / static_cast<std::size_t>(asked().texts.count)], true);
    json["generation_settings"] = settings_json(asked().texts.generate, app().scheduler.context());
    json["has_new_line"] = has_new_line_;
    // By the end of the context.
    const std::int64_t most = asked().texts.generate.max_tokens;
    json["truncated"] = w.end == TextEnd::length && (most < 0 || w.stats.generated_tokens < most);
    json["stop_type"] = w.end == TextEnd::length ? "limit" : w.stop_text.empty() ? "eos" : "word";
    json["stopping_word"] = w.stop_text;
    json["tokens_cached"] = w.stats.prompt_tokens + w.stats.generated_tokens;
    json["timings"] = timings(w.stats);
    return fields_.empty() ? json : chosen_of(json);
  }

  /// Members by their paths, under these: "generation_settings/seed". Those that are not there are left out.
  [[nodiscard]] Json chosen_of(const Json& json) const {
    Json chosen = Json::object();
    for (const std::string& path : fields_) {
      const Json* at = &json;
      for (std::size_t begin = 0; at != nullptr && begin <= path.size();) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        at = at->is_object() ? at->find(std::string_view(path).substr(begin, end - begin)) : nullptr;
        begin = end + 1;
      }
      if (at != nullptr) chosen[path] = *at;
    }
    return chosen;
  }

  void take(const Update& update) override {
    Written& w = texts_[update.text];
    w.add(update);
    has_new_line_ = has_new_line_ || update.piece.find('\n') != std::string::npos;
    if (!asked().stream || (w.text.empty() && w.end == TextEnd::running)) return;
    event(piece_of(update.text));
    w.text.clear();
    w.tokens.clear();
  }

  [[nodiscard]] Json bare_event(std::size_t text) override { return piece_of(text); }
  void end_stream() override {}

  [[nodiscard]] Json whole() override {
    if (!several_) return piece_of(0);
    Json all = Json::array();
    for (std::size_t i = 0; i < texts_.size(); ++i) all.push_back(piece_of(i));
    return all;
  }

  std::vector<Written> texts_;
  bool several_;
  std::vector<std::string> fields_;
  bool has_new_line_ = false;
};

/// One prompt: a text, tokens, or both by turns. Texts may spell special tokens: who writes whole prompts means them.
std::vector<TokenId> one_prompt(const App& app, const Json& given) {
  if (given.is_string()) return app.tokenizer().encode(given.string(), {.parse_special = true});
  if (!given.is_array()) refuse("prompt", "a text, tokens, or an array of prompts", given);
  std::vector<TokenId> tokens;
  for (const Json& part : given) {
    if (part.is_string()) {
      const std::vector<TokenId> more = app.tokenizer().encode(part.string(), {.add_special = tokens.empty(), .parse_special = true});
      tokens.insert(tokens.end(), more.begin(), more.end());
    } else {
      tokens.push_back(token_of(part, app.vocab(), "prompt"));
    }
  }
  return tokens;
}

}  // namespace

Prompts read_prompts(const App& app, const Json* given) {
  if (given == nullptr) throw bad_request("prompt: expected a text, tokens, or an array of prompts, found none", "prompt");
  // Texts alone, or arrays, are prompts each; a number makes it one prompt of tokens and texts.
  const bool several = given->is_array() && std::none_of(given->begin(), given->end(), [](const Json& item) { return item.is_number(); });
  if (!several) return {.tokens = {one_prompt(app, *given)}};
  constexpr std::size_t most = 256;
  if (given->empty() || given->size() > most)
    throw bad_request(message("prompt: expected 1 to ", most, " prompts, found ", given->size()), "prompt");
  Prompts prompts{.tokens = {}, .several = true};
  for (const Json& item : *given) prompts.tokens.push_back(one_prompt(app, item));
  return prompts;
}

NativeAsked read_native(App& app, const Fields& fields) {
  fields.not_yet({"post_sampling_probs"});
  NativeAsked native{.asked = read_asked(app, fields, -1)};
  constexpr std::size_t most_fields = 64;
  if (fields.find("response_fields") != nullptr) native.fields = fields.texts("response_fields");
  if (native.fields.size() > most_fields)
    throw bad_request(message("response_fields: expected at most ", most_fields, " names, found ", native.fields.size()), "response_fields");
  constexpr std::int64_t most_probabilities = 100;
  if (const auto count = fields.integer("n_probs", 0, most_probabilities); count && *count > 0) {
    native.asked.logprobs = true;
    native.asked.texts.top_logprobs = static_cast<int>(*count);
  }
  return native;
}

void start_native(App& app, const std::shared_ptr<Exchange>& exchange, NativeAsked native) {
  std::make_shared<NativeWriting>(app, exchange, std::move(native))->start();
}

void native_completion(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  const Fields fields(body);
  NativeAsked native = read_native(app, fields);
  Prompts prompts = read_prompts(app, fields.find("prompt"));
  native.asked.texts.prompts = std::move(prompts.tokens);
  native.several = prompts.several;
  start_native(app, exchange, std::move(native));
}

}  // namespace bantam::server
