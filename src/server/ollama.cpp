// POST /api/chat and /api/generate: chats and texts as Ollama has them, a stream of lines of JSON.
#include "server/completions.hpp"
#include "server/dialects.hpp"
#include "server/time_text.hpp"

namespace bantam::server {

namespace {

/// What every answer begins with.
Json ollama_frame(std::string_view model) { return {{"model", model}, {"created_at", time_text(std::chrono::system_clock::now())}}; }

class OllamaWriting final : public ChatWriting {
 public:
  OllamaWriting(App& app, std::shared_ptr<Exchange> exchange, ChatAsked chat, bool is_chat)
      : ChatWriting(app, std::move(exchange), std::move(chat)), is_chat_(is_chat) {}

 private:
  using Kind = ReplyPart::Kind;

  [[nodiscard]] static Json call_json(const ToolCall& call, std::size_t index) {
    Json arguments = Json::parse_or_null(call.arguments);
    if (!arguments.is_object()) arguments = Json::object();  // cut off
    Json function = {{"index", index}, {"name", call.name}, {"arguments", std::move(arguments)}};
    return {{"id", call.id}, {"function", std::move(function)}};
  }

  /// An answer, or a part of it, with what is known of its tokens.
  [[nodiscard]] Json answer_with(std::string_view text, std::string_view thinking, Json calls, bool done) {
    Json json = ollama_frame(name_), said = Json::object();
    if (is_chat_) said["role"] = "assistant";
    said[is_chat_ ? "content" : "response"] = text;
    if (!thinking.empty()) said["thinking"] = thinking;
    if (!calls.empty()) said["tool_calls"] = std::move(calls);
    if (is_chat_) {
      json["message"] = std::move(said);
    } else {
      for (const auto& [key, value] : said.items()) json[key] = value;
    }
    json["done"] = done;
    Json& logprobs = replies().front().logprobs;
    if (asked().logprobs && !logprobs.empty()) json["logprobs"] = std::exchange(logprobs, Json::array());
    return json;
  }

  /// Why it ended, and how long all of it took, in nanoseconds.
  void add_end(Json& json) const {
    const ChatReply& reply = replies().front();
    const TextStats& s = reply.stats;
    const auto ns = [](double ms) { return static_cast<std::int64_t>(1e6 * ms); };
    json["done_reason"] = finish_reason(reply.end);
    json["total_duration"] = ns(s.waited_ms + s.prompt_ms + s.generate_ms);
    json["load_duration"] = 0;
    json["prompt_eval_count"] = s.prompt_tokens;
    json["prompt_eval_duration"] = ns(s.prompt_ms);
    json["eval_count"] = s.generated_tokens;
    json["eval_duration"] = ns(s.generate_ms);
    json["timings"] = timings(s);
  }

  void begin_reply(std::size_t) override {}
  void begin_part(std::size_t, std::size_t) override {}
  void say_piece(std::size_t text, std::size_t part, std::string_view piece) override {
    const Kind kind = replies()[text].parts[part].kind;
    if (kind == Kind::text) line(answer_with(piece, "", Json::array(), false));
    if (kind == Kind::reasoning) line(answer_with("", piece, Json::array(), false));
  }
  /// Calls come whole.
  void end_part(std::size_t text, std::size_t part) override {
    const ReplyPart& ended = replies()[text].parts[part];
    if (ended.kind != Kind::call || ended.broken) return;
    line(answer_with("", "", Json::array({call_json({.id = ended.id, .name = ended.name, .arguments = ended.text}, calls_++)}), false));
  }
  void end_reply(std::size_t) override {
    Json json = answer_with("", "", Json::array(), true);
    add_end(json);
    line(json);
  }
  void end_stream() override {}
  void end_stream_with(const ApiError& error) override { line(error.json(path())); }
  [[nodiscard]] StreamForm stream_form() const override { return json_lines; }

  [[nodiscard]] Json whole() override {
    const ParsedReply all = replies().front().parsed();
    Json calls = Json::array();
    for (const ToolCall& call : all.calls) calls.push_back(call_json(call, calls.size()));
    Json json = answer_with(all.text, all.reasoning, std::move(calls), true);
    add_end(json);
    return json;
  }

  const bool is_chat_;
  std::size_t calls_ = 0;  ///< that were told
  const std::string name_ = app().options.name;
};

void answer_chat(App& app, const std::shared_ptr<Exchange>& exchange, ChatAsked chat, bool is_chat) {
  check_single(chat.asked);
  std::make_shared<OllamaWriting>(app, exchange, std::move(chat), is_chat)->start();
}

/// Who asks for nothing wants the model to be there, which it is.
void answer_loaded(App& app, Exchange& exchange, bool is_chat) {
  Json json = ollama_frame(app.options.name);
  if (is_chat) json["message"] = Json{{"role", "assistant"}, {"content", ""}};
  if (!is_chat) json["response"] = "";
  json["done"] = true;
  json["done_reason"] = "load";
  app.answer(exchange, json);
}

/// A text behind a prompt, without a template and without marks of thoughts.
ChatAsked raw_prompt(App& app, const Json& chat, const std::string& prompt) {
  ChatAsked raw{.asked = read_asked(app, Fields(chat), -1), .tools = {}, .prompt = prompt, .is_plain = true};
  const Json text = prompt;
  raw.asked.texts.prompts = read_prompts(app, &text).tokens;
  return raw;
}

}  // namespace

void ollama_chat(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  const Fields fields(body);
  app.check_model(fields);
  const Json* messages = fields.array("messages");
  if (messages == nullptr || messages->empty()) return answer_loaded(app, *exchange, true);
  answer_chat(app, exchange, read_chat(app, chat_of_ollama(body)), true);
}

void ollama_generate(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  const Fields fields(body);
  app.check_model(fields);
  const std::string prompt = fields.text("prompt").value_or("");
  if (prompt.empty()) return answer_loaded(app, *exchange, false);
  const Json chat = chat_of_ollama_prompt(body, prompt);
  answer_chat(app, exchange, fields.flag("raw", false) ? raw_prompt(app, chat, prompt) : read_chat(app, chat), false);
}

}  // namespace bantam::server
