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
    for (std::size_t i = 0; i < texts_.size(); ++i) texts_[i].text = echo_of(i);
  }

 private:
  [[nodiscard]] std::string echo_of(std::size_t text) {
    return asked().prompts.empty() ? std::string() : asked().prompts[text / static_cast<std::size_t>(asked().texts.count)];
  }

  /// The older shape: lists side by side.
  [[nodiscard]] Json logprobs_of(const Written& w) const {
    Json tokens = Json::array(), logprobs = Json::array(), top = Json::array(), offsets = Json::array();
    std::size_t offset = w.length;
    for (const DrawnToken& token : w.tokens) {
      const std::string bytes = bytes_of(token.id);
      tokens.push_back(bytes);
      logprobs.push_back(std::max(static_cast<double>(token.logprob), -9999.0));
      Json best = Json::object();
      for (const auto& [id, logprob] : token.top) best[bytes_of(id)] = std::max(static_cast<double>(logprob), -9999.0);
      top.push_back(std::move(best));
      offsets.push_back(offset);
      offset += bytes.size();
    }
    return {{"tokens", tokens}, {"token_logprobs", logprobs}, {"top_logprobs", top}, {"text_offset", offsets}};
  }

  [[nodiscard]] Json choice_of(std::size_t text) {
    const Written& w = texts_[text];
    Json choice = Json::object();
    choice["index"] = text;
    choice["text"] = w.text;
    choice["logprobs"] = asked().logprobs ? logprobs_of(w) : Json();
    choice["finish_reason"] = w.end == TextEnd::running ? Json() : Json(finish_reason(w.end));
    if (!w.stop_text.empty()) choice["stop_reason"] = w.stop_text;
    return choice;
  }

  [[nodiscard]] Json frame() const {
    return {{"id", id_}, {"object", "text_completion"}, {"created", created_}, {"model", name_}, {"system_fingerprint", "bantam"}};
  }

  void take(const Update& update) override {
    Written& w = texts_[update.text];
    w.add(update);
    if (!asked().stream) return;
    if (w.text.empty() && w.tokens.empty() && w.end == TextEnd::running) return;
    // Tokens whose characters are incomplete come with what completes them.
    if (w.text.empty() && !asked().logprobs && w.end == TextEnd::running) return;
    Json json = frame();
    json["choices"] = Json::array({choice_of(update.text)});
    if (asked().include_usage) json["usage"] = nullptr;
    if (w.end != TextEnd::running) json["timings"] = timings(w.stats);
    event(json);
    for (const DrawnToken& token : w.tokens) w.length += bytes_of(token.id).size();
    w.text.clear();
    w.tokens.clear();
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
  if (fields.flag("echo", false)) {
    if (asked.logprobs) throw bad_request("echo: expected no logprobs beside it: those of prompts are not there yet", "echo");
    for (const std::vector<TokenId>& prompt : asked.texts.prompts) asked.prompts.push_back(app.tokenizer().decode(prompt));
  }
  std::make_shared<CompletionWriting>(app, exchange, std::move(asked))->start();
}

}  // namespace bantam::server
