// POST /generate and /generate_stream, as Hugging Face's server (TGI) has them.
#include "server/completions.hpp"

namespace bantam::server {

namespace {

/// Its parameters in the words of the others.
Json native_of_parameters(const Fields& p) {
  Json out = Json::object();
  const auto pass = [&](std::string_view theirs, std::string_view ours) {
    if (const Json* value = p.find(theirs)) out[ours] = *value;
  };
  p.not_yet({"best_of", "decoder_input_details", "top_n_tokens", "watermark", "adapter_id"});
  for (const std::string_view name : {"top_k", "top_p", "typical_p", "repetition_penalty", "frequency_penalty", "seed", "stop"}) pass(name, name);
  constexpr int usual_tokens = 100;  // its own
  out["max_tokens"] = usual_tokens;
  pass("max_new_tokens", "max_tokens");
  // Greedy unless asked otherwise; who says how to draw wants it.
  const bool draws = p.flag("do_sample", p.find("temperature") != nullptr || p.find("top_k") != nullptr || p.find("top_p") != nullptr);
  out["temperature"] = draws ? 1 : 0;
  if (draws) pass("temperature", "temperature");
  if (const Json* grammar = p.object("grammar")) {
    const Fields inside(*grammar, "parameters.grammar");
    const std::string type = inside.text("type").value_or("");
    const Json* value = inside.find("value");
    if ((type != "json" && type != "json_schema" && type != "regex") || value == nullptr)
      throw bad_request(message("parameters.grammar: expected a type (json, regex) and a value, found ", printable(type)), "parameters");
    out[type == "regex" ? "guided_regex" : "json_schema"] = *value;
  }
  return out;
}

class GenerateWriting final : public Writing {
 public:
  GenerateWriting(App& app, std::shared_ptr<Exchange> exchange, Asked asked, bool details, std::string front)
      : Writing(app, std::move(exchange), std::move(asked)), details_(details), front_(std::move(front)) {}

 private:
  [[nodiscard]] Json token_json(const DrawnToken& token, std::string_view text) const {
    return {{"id", static_cast<std::int64_t>(token.id)},
            {"text", text},
            {"logprob", asked().logprobs ? Json(static_cast<double>(token.logprob)) : Json()},
            {"special", tokenizer_.is_special(token.id)}};
  }

  [[nodiscard]] Json details_of() const {
    return {{"finish_reason", written_.end == TextEnd::length ? "length" : written_.stop_text.empty() ? "eos_token" : "stop_sequence"},
            {"generated_tokens", written_.stats.generated_tokens},
            {"seed", seed_}};
  }

  void take(const Update& update) override {
    written_.add(update);
    if (!asked().stream) return;
    const bool ends = update.end != TextEnd::running;
    if (update.tokens.empty() && !ends) return;
    Json json = Json::object();
    json["index"] = written_.stats.generated_tokens;
    json["token"] = update.tokens.empty() ? Json() : token_json(update.tokens.back(), update.piece);
    json["generated_text"] = ends ? Json(front_ + written_.text) : Json();
    json["details"] = ends ? details_of() : Json();
    event(json);
  }
  void end_stream() override {}

  [[nodiscard]] Json whole() override {
    Json json = Json::object();
    json["generated_text"] = front_ + written_.text;
    if (!details_) return json;
    Json details = details_of(), tokens = Json::array();
    for (const DrawnToken& token : written_.tokens) tokens.push_back(token_json(token, bytes_of(token.id)));
    details["prefill"] = Json::array();
    details["tokens"] = std::move(tokens);
    json["details"] = std::move(details);
    return json;
  }

  const Tokenizer& tokenizer_ = app().tokenizer();
  const std::uint64_t seed_ = asked().texts.generate.sampling.seed;
  bool details_;
  std::string front_;
  Written written_;
};

void start_generate(App& app, const std::shared_ptr<Exchange>& exchange, bool streams) {
  const Json body = parse_body(exchange->request());
  const Fields fields(body);
  const auto inputs = fields.text("inputs");
  if (!inputs) throw bad_request("inputs: expected a text, found none", "inputs");
  const Json none = Json::object();
  const Json* given = fields.object("parameters");
  const Fields parameters(given == nullptr ? none : *given, "parameters");
  const Json native = native_of_parameters(parameters);
  Asked asked = read_asked(app, Fields(native, "parameters"), -1);
  asked.stream = streams;
  asked.logprobs = app.common.front.options().most_logprobs >= 0;
  if (asked.logprobs) asked.texts.top_logprobs = 0;
  asked.texts.prompts = {app.tokenizer().encode(*inputs, {.parse_special = true})};
  cut_prompts(app, parameters, "truncate", asked);
  const std::string front = parameters.flag("return_full_text", false) ? *inputs : std::string();
  std::make_shared<GenerateWriting>(app, exchange, std::move(asked), parameters.flag("details", false), front)->start();
}

}  // namespace

void generate(App& app, const std::shared_ptr<Exchange>& exchange) {
  start_generate(app, exchange, Fields(parse_body(exchange->request())).flag("stream", false));
}
void generate_stream(App& app, const std::shared_ptr<Exchange>& exchange) { start_generate(app, exchange, true); }

}  // namespace bantam::server
