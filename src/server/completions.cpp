// POST /v1/completions: texts behind prompts, as OpenAI's older API has them.
#include "server/completions.hpp"

#include <algorithm>

namespace bantam::server {

namespace {

class CompletionWriting final : public Writing {
 public:
  CompletionWriting(App& app, std::shared_ptr<Exchange> exchange, Asked asked)
      : Writing(app, std::move(exchange), std::move(asked)),
        texts_(this->asked().texts.prompts.size() * static_cast<std::size_t>(this->asked().texts.count)) {
    if (this->asked().texts.prompt_logprobs >= 0) scored_.resize(this->asked().texts.prompts.size());
    if (this->asked().prompts.empty()) return;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      texts_[i].text = this->asked().prompts[prompt_of(i)];
      texts_[i].length = texts_[i].text.size();
    }
    if (!this->asked().logprobs) return;
    echoes_.assign(texts_.size(), true);
  }

 private:
  [[nodiscard]] std::size_t prompt_of(std::size_t text) const { return text / static_cast<std::size_t>(asked().texts.count); }

  /// The older shape: lists side by side.
  struct Lists {
    Json tokens = Json::array(), logprobs = Json::array(), top = Json::array(), offsets = Json::array();

    void add(std::string bytes, Json logprob, Json best, std::size_t offset) {
      tokens.push_back(std::move(bytes));
      logprobs.push_back(std::move(logprob));
      top.push_back(std::move(best));
      offsets.push_back(offset);
    }
  };

  void add(Lists& lists, const DrawnToken& token, std::size_t offset) const {
    Json best = Json::object();
    const auto count = std::min(token.top.size(), static_cast<std::size_t>(asked().texts.top_logprobs));
    for (std::size_t i = 0; i < count; ++i) best[bytes_of(token.top[i].first)] = said_logprob(token.top[i].second);
    // The token that came is always among them, as OpenAI has it.
    std::string bytes = bytes_of(token.id);
    if (!best.contains(bytes)) best[bytes] = said_logprob(token.logprob);
    lists.add(std::move(bytes), said_logprob(token.logprob), std::move(best), offset);
  }

  /// Nobody knows how probable a prompt's first token is. Special tokens have no place in the text that is echoed.
  void add_prompt(Lists& lists, std::size_t prompt) const {
    std::size_t offset = 0;
    bool begun = false;
    const std::vector<TokenId>& tokens = asked().texts.prompts[prompt];
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i == 0) {
        lists.add(bytes_of(tokens[i]), nullptr, nullptr, offset);
      } else {
        add(lists, scored_[prompt][i - 1], offset);
      }
      if (tokenizer().is_special(tokens[i])) continue;
      offset += (begun ? tokenizer().piece_bytes(tokens[i]) : tokenizer().first_piece_bytes(tokens[i])).size();
      begun = true;
    }
  }

  [[nodiscard]] Json logprobs_of(std::size_t text) const {
    const Written& w = texts_[text];
    Lists lists;
    if (echoes(text)) add_prompt(lists, prompt_of(text));
    std::size_t offset = w.length;
    for (const DrawnToken& token : w.tokens) {
      add(lists, token, offset);
      offset += bytes_of(token.id).size();
    }
    return {{"tokens", std::move(lists.tokens)}, {"token_logprobs", std::move(lists.logprobs)}, {"top_logprobs", std::move(lists.top)}, {"text_offset", std::move(lists.offsets)}};
  }

  /// The prompt's log probabilities are yet to be told with a text.
  [[nodiscard]] bool echoes(std::size_t text) const { return !echoes_.empty() && echoes_[text]; }

  /// Of a stream the first event of a prompt's first text, which was told all of it by then.
  [[nodiscard]] bool tells_prompt(std::size_t text) const {
    return !asked().stream || (text % static_cast<std::size_t>(asked().texts.count) == 0 && !texts_[text].is_told);
  }

  [[nodiscard]] Json choice_of(std::size_t text) {
    const Written& w = texts_[text];
    Json choice = Json::object();
    choice["index"] = text;
    choice["text"] = w.text;
    choice["logprobs"] = asked().logprobs ? logprobs_of(text) : Json();
    choice["finish_reason"] = w.end == TextEnd::running ? Json() : Json(finish_reason(w.end));
    if (!w.stop_text.empty()) choice["stop_reason"] = w.stop_text;
    if (asked().prompt_logprobs >= 0 && tells_prompt(text)) choice["prompt_logprobs"] = prompt_logprobs_of(scored_[prompt_of(text)]);
    if (asked().token_ids) choice["token_ids"] = ids_of(w.tokens);
    if (asked().token_ids && !w.is_told) choice["prompt_token_ids"] = ids_of(asked().texts.prompts[prompt_of(text)]);
    return choice;
  }

  [[nodiscard]] Json frame() const {
    return {{"id", id_}, {"object", "text_completion"}, {"created", created_}, {"model", name_}, {"system_fingerprint", "bantam"}};
  }

  void take(const Update& update) override {
    Written& w = texts_[update.text];
    w.add(update);
    if (!scored_.empty()) {
      std::vector<DrawnToken>& scored = scored_[prompt_of(update.text)];
      scored.insert(scored.end(), update.prompt.begin(), update.prompt.end());
    }
    if (!asked().stream) return;
    // What is said of the prompt comes with the first token, or the end.
    if (echoes(update.text) && w.tokens.empty() && w.end == TextEnd::running) return;
    if (w.text.empty() && w.tokens.empty() && w.end == TextEnd::running) return;
    // Tokens whose characters are incomplete come with what completes them.
    if (w.text.empty() && !asked().logprobs && w.end == TextEnd::running) return;
    Json json = frame();
    json["choices"] = Json::array({choice_of(update.text)});
    add_usage(json);
    if (w.end != TextEnd::running || asked().timings) json["timings"] = timings(w.stats);
    event(json);
    for (const DrawnToken& token : w.tokens) w.length += bytes_of(token.id).size();
    w.text.clear();
    w.tokens.clear();
    w.is_told = true;
    if (!echoes_.empty()) echoes_[update.text] = false;
  }

  [[nodiscard]] Json bare_event(std::size_t) override {
    Json json = frame();
    json["choices"] = Json::array();
    return json;
  }

  void end_stream() override { done_in(frame()); }

  [[nodiscard]] Json whole() override {
    Json choices = Json::array();
    for (std::size_t i = 0; i < texts_.size(); ++i) choices.push_back(choice_of(i));
    Json json = frame();
    json["choices"] = std::move(choices);
    json["usage"] = usage();
    json["timings"] = timings(texts_.front().stats);
    return json;
  }

  const std::string id_ = random_id("cmpl-", 32), name_ = app().options.name;
  std::vector<Written> texts_;
  std::vector<std::vector<DrawnToken>> scored_;  ///< of each prompt, from its second token on, where its log probabilities are asked for
  std::vector<bool> echoes_;                     ///< the same of texts: they have not told it yet
};

}  // namespace

void completions(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  const Fields fields(body);
  app.check_model(fields);
  constexpr std::int64_t usual_tokens = 16, most_logprobs = 20;  // of OpenAI's API
  Asked asked = read_asked(app, fields, usual_tokens);
  if (const auto count = fields.integer("logprobs", 0, most_logprobs)) {
    asked.logprobs = true;
    asked.texts.top_logprobs = static_cast<int>(*count);
  }
  asked.texts.prompts = read_prompts(app, fields.find("prompt")).tokens;
  cut_prompts(app, fields, "truncate_prompt_tokens", asked);
  if (fields.flag("echo", false)) {
    if (asked.logprobs) asked.texts.prompt_logprobs = asked.texts.top_logprobs;
    for (const std::vector<TokenId>& prompt : asked.texts.prompts) asked.prompts.push_back(app.tokenizer().decode(prompt));
  }
  read_prompt_logprobs(fields, asked);
  std::make_shared<CompletionWriting>(app, exchange, std::move(asked))->start();
}

}  // namespace bantam::server
