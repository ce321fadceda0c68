// POST /v1/chat/completions: OpenAI's chats.
#include "server/chat.hpp"

namespace bantam::server {

namespace {

std::string_view chat_reason(const ChatReply& reply) {
  return reply.end == TextEnd::stop && reply.calls() ? "tool_calls" : finish_reason(reply.end);
}

class CompletionChat final : public ChatWriting {
 public:
  using ChatWriting::ChatWriting;

 private:
  void begin_reply(std::size_t text) override {
    Json first = Json::object();
    first["role"] = "assistant";
    first["content"] = tools().use == ToolUse::named ? Json() : Json("");
    say(text, std::move(first), nullptr);
  }

  void begin_part(std::size_t text, std::size_t part) override {
    const ReplyPart& p = replies()[text].parts[part];
    if (p.kind != ReplyPart::Kind::call) return;
    Json function = {{"name", p.name}, {"arguments", ""}};
    say_call(text, {{"index", number_of(text, part)}, {"id", p.id}, {"type", "function"}, {"function", std::move(function)}});
  }

  void say_piece(std::size_t text, std::size_t part, std::string_view piece) override {
    const ReplyPart& p = replies()[text].parts[part];
    if (p.kind == ReplyPart::Kind::call) {
      Json function = Json::object(), call = Json::object();
      function["arguments"] = piece;
      call["index"] = number_of(text, part);
      call["function"] = std::move(function);
      return say_call(text, std::move(call));
    }
    Json delta = Json::object();
    delta[p.kind == ReplyPart::Kind::text ? "content" : "reasoning_content"] = piece;
    say(text, std::move(delta), nullptr);
  }

  void end_part(std::size_t, std::size_t) override {}
  void end_reply(std::size_t text) override { say(text, Json::object(), chat_reason(replies()[text])); }

  /// Which call of its reply a part is.
  [[nodiscard]] std::size_t number_of(std::size_t text, std::size_t part) const {
    std::size_t before = 0;
    for (std::size_t i = 0; i < part; ++i) before += replies()[text].parts[i].kind == ReplyPart::Kind::call ? 1 : 0;
    return before;
  }

  void say_call(std::size_t text, Json call) {
    Json delta = Json::object();
    delta["tool_calls"] = Json::array({std::move(call)});
    say(text, std::move(delta), nullptr);
  }

  void say(std::size_t text, Json delta, Json reason) {
    ChatReply& reply = replies()[text];
    Json one = Json::object();
    one["index"] = text;
    one["delta"] = std::move(delta);
    one["logprobs"] = nullptr;
    if (asked().logprobs && reply.logprobs.size() > 0) {
      Json logprobs = Json::object();
      logprobs["content"] = std::exchange(reply.logprobs, Json::array());
      one["logprobs"] = std::move(logprobs);
    }
    if (asked().token_ids) one["token_ids"] = ids_of(std::exchange(reply.tokens, {}));
    const bool ends = !reason.is_null(), begins = one["delta"].contains("role");
    one["finish_reason"] = std::move(reason);
    Json json = frame("chat.completion.chunk");
    json["choices"] = Json::array({std::move(one)});
    add_usage(json);
    if (ends || (asked().timings && !begins)) json["timings"] = timings(reply.stats);
    if (asked().prompt_logprobs >= 0 && ends && text == 0) json["prompt_logprobs"] = prompt_logprobs_of(scored());
    if (asked().token_ids && !std::exchange(told_prompt_, true)) json["prompt_token_ids"] = ids_of(asked().texts.prompts.front());
    event(json);
  }

  [[nodiscard]] Json frame(std::string_view object) const {
    return {{"id", id_}, {"object", object}, {"created", created_}, {"model", name_}, {"system_fingerprint", "bantam"}};
  }

  [[nodiscard]] Json bare_event(std::size_t) override {
    Json json = frame("chat.completion.chunk");
    json["choices"] = Json::array();
    return json;
  }

  void end_stream() override { done_in(frame("chat.completion.chunk")); }

  [[nodiscard]] Json whole() override {
    Json choices = Json::array();
    for (std::size_t i = 0; i < replies().size(); ++i) {
      Json one = Json::object();
      one["index"] = i;
      one["message"] = replies()[i].message();
      one["logprobs"] = nullptr;
      if (asked().logprobs) {
        Json logprobs = Json::object();
        logprobs["content"] = std::move(replies()[i].logprobs);
        one["logprobs"] = std::move(logprobs);
      }
      if (asked().token_ids) one["token_ids"] = ids_of(replies()[i].tokens);
      one["finish_reason"] = chat_reason(replies()[i]);
      choices.push_back(std::move(one));
    }
    Json json = frame("chat.completion");
    json["choices"] = std::move(choices);
    json["usage"] = usage();
    json["timings"] = timings(replies().front().stats);
    if (asked().prompt_logprobs >= 0) json["prompt_logprobs"] = prompt_logprobs_of(scored());
    if (asked().token_ids) json["prompt_token_ids"] = ids_of(asked().texts.prompts.front());
    return json;
  }

  const std::string id_ = random_id("chatcmpl-", 32), name_ = app().options.name;
  bool told_prompt_ = false;  ///< its tokens
};

}  // namespace

void chat_completions(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  ChatAsked chat = read_chat(app, body);
  read_prompt_logprobs(Fields(body), chat.asked);
  std::make_shared<CompletionChat>(app, exchange, std::move(chat))->start();
}

}  // namespace bantam::server
