// POST /v1/messages and /v1/messages/count_tokens: Anthropic's chats.
#include "server/dialects.hpp"

namespace bantam::server {

namespace {

class MessageWriting final : public ChatWriting {
 public:
  using ChatWriting::ChatWriting;

 private:
  using Kind = ReplyPart::Kind;

  /// A block with what stands in it, or as it begins in a stream.
  [[nodiscard]] static Json block_of(const ReplyPart& part, bool begins) {
    const std::string text = begins ? std::string() : part.text;
    if (part.kind == Kind::text) return {{"type", "text"}, {"text", text}};
    // Signatures say who wrote a thought; nobody asks for ours.
    if (part.kind == Kind::reasoning) return {{"type", "thinking"}, {"thinking", text}, {"signature", ""}};
    Json input = Json::parse_or_null(text);
    if (!input.is_object()) input = Json::object();  // not begun, or cut off
    return {{"type", "tool_use"}, {"id", part.id}, {"name", part.name}, {"input", std::move(input)}};
  }

  [[nodiscard]] static std::string_view stop_reason_of(const ChatReply& reply) {
    if (reply.end == TextEnd::length) return "max_tokens";
    if (!reply.stop_text.empty()) return "stop_sequence";
    return reply.calls() ? "tool_use" : "end_turn";
  }

  [[nodiscard]] Json usage_of(const ChatReply& reply) const {
    const TextStats& s = reply.stats;
    return {{"input_tokens", s.prompt_tokens - s.reused_tokens},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", s.reused_tokens},
            {"output_tokens", s.generated_tokens}};
  }

  /// The message with its blocks, and with how it ended if it did.
  [[nodiscard]] Json message_with(Json content) const {
    const ChatReply& reply = replies().front();
    const bool ended = reply.end != TextEnd::running;
    return {{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", name_},
            {"content", std::move(content)},
            {"stop_reason", ended ? Json(stop_reason_of(reply)) : Json()},
            {"stop_sequence", reply.stop_text.empty() ? Json() : Json(reply.stop_text)},
            {"usage", usage_of(reply)}};
  }

  void say(std::string_view type, Json more = Json::object()) {
    Json json = Json::object();
    json["type"] = type;
    for (const auto& [key, value] : more.items()) json[key] = value;
    event(json, type);
  }

  void begin_reply(std::size_t) override {
    Json more = Json::object();
    more["message"] = message_with(Json::array());
    say("message_start", std::move(more));
    say("ping");
  }

  void begin_part(std::size_t text, std::size_t part) override {
    say("content_block_start", {{"index", part}, {"content_block", block_of(replies()[text].parts[part], true)}});
  }

  void say_delta(std::size_t part, std::string_view type, std::string_view name, std::string_view piece) {
    Json delta = Json::object();
    delta["type"] = type;
    delta[name] = piece;
    say("content_block_delta", {{"index", part}, {"delta", std::move(delta)}});
  }

  void say_piece(std::size_t text, std::size_t part, std::string_view piece) override {
    switch (replies()[text].parts[part].kind) {
      case Kind::text: return say_delta(part, "text_delta", "text", piece);
      case Kind::reasoning: return say_delta(part, "thinking_delta", "thinking", piece);
      case Kind::call: return say_delta(part, "input_json_delta", "partial_json", piece);
    }
  }

  void end_part(std::size_t text, std::size_t part) override {
    if (replies()[text].parts[part].kind == Kind::reasoning) say_delta(part, "signature_delta", "signature", "");
    Json more = Json::object();
    more["index"] = part;
    say("content_block_stop", std::move(more));
  }

  void end_reply(std::size_t text) override {
    const ChatReply& reply = replies()[text];
    Json delta = {{"stop_reason", stop_reason_of(reply)}, {"stop_sequence", reply.stop_text.empty() ? Json() : Json(reply.stop_text)}};
    say("message_delta", {{"delta", std::move(delta)}, {"usage", usage_of(reply)}});
    say("message_stop");
  }

  void end_stream() override {}
  void end_stream_with(const ApiError& error) override { event(error.json(path()), "error"); }

  [[nodiscard]] Json whole() override {
    Json content = Json::array();
    for (const ReplyPart& part : replies().front().parts) {
      if (!part.broken) content.push_back(block_of(part, false));
    }
    return message_with(std::move(content));
  }

  const std::string id_ = random_id("msg_", 24), name_ = app().options.name;
};

}  // namespace

void messages(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  if (!Fields(body).integer("max_tokens", 1)) throw bad_request("max_tokens: expected a whole number of at least 1, found none", "max_tokens");
  ChatAsked chat = read_chat(app, chat_of_messages(body));
  check_single(chat.asked);
  std::make_shared<MessageWriting>(app, exchange, std::move(chat))->start();
}

void count_message_tokens(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  app.check_model(Fields(body));
  app.answer(*exchange, Json{{"input_tokens", count_chat_tokens(app, chat_of_messages(body))}});
}

}  // namespace bantam::server
