// POST /v1/responses, and those that are kept: OpenAI's later chats.
#include "server/dialects.hpp"
#include "server/models.hpp"

namespace bantam::server {

namespace {

/// With null for members that it lacks: clients check that they are there.
Json with_members(Json object, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (!object.contains(name)) object[name] = nullptr;
  }
  return object;
}

/// What a response says of its request.
Json response_frame(const Json& body, const Asked& asked) {
  const Fields fields(body);
  const Sampling& s = asked.texts.generate.sampling;
  const auto given = [&](std::string_view name, Json otherwise) {
    const Json* found = fields.find(name);
    return found == nullptr ? otherwise : *found;
  };
  Json text = given("text", Json::object()), tools = Json::array();
  const Json* format = Fields(text).find("format");
  const bool is_schema = format != nullptr && Fields(*format).text("type") == "json_schema";
  text["format"] = format == nullptr ? Json{{"type", "text"}} : is_schema ? with_members(*format, {"description", "strict"}) : *format;
  for (const Json& tool : given("tools", Json::array())) tools.push_back(with_members(tool, {"description", "parameters", "strict"}));
  return {{"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", given("instructions", nullptr)},
          {"previous_response_id", given("previous_response_id", nullptr)},
          {"tools", std::move(tools)},
          {"tool_choice", given("tool_choice", "auto")},
          {"parallel_tool_calls", given("parallel_tool_calls", true)},
          {"max_output_tokens", given("max_output_tokens", nullptr)},
          {"max_tool_calls", given("max_tool_calls", nullptr)},
          {"text", std::move(text)},
          {"reasoning", with_members(given("reasoning", Json::object()), {"effort", "summary"})},
          {"temperature", static_cast<double>(s.temperature)},
          {"top_p", static_cast<double>(s.top_p)},
          {"presence_penalty", static_cast<double>(s.presence_penalty)},
          {"frequency_penalty", static_cast<double>(s.frequency_penalty)},
          {"top_logprobs", 0},
          {"truncation", "disabled"},
          {"store", given("store", true)},
          {"background", false},
          {"service_tier", "default"},
          {"metadata", given("metadata", Json::object())},
          {"user", given("user", nullptr)},
          {"safety_identifier", given("safety_identifier", nullptr)},
          {"prompt_cache_key", given("prompt_cache_key", nullptr)}};
}

class ResponseWriting final : public ChatWriting {
 public:
  /// `kept`: its messages and input, for the store; null where that is not wanted.
  ResponseWriting(App& app, std::shared_ptr<Exchange> exchange, ChatAsked chat, const Json& body, std::optional<StoredResponse> kept)
      : ChatWriting(app, std::move(exchange), std::move(chat)), frame_(response_frame(body, asked())), kept_(std::move(kept)) {}

 private:
  using Kind = ReplyPart::Kind;

  [[nodiscard]] const std::string& id_of(std::size_t part) {
    while (ids_.size() <= part) {
      const Kind kind = replies().front().parts[ids_.size()].kind;
      ids_.push_back(random_id(kind == Kind::text ? "msg_" : kind == Kind::reasoning ? "rs_" : "fc_", 32));
    }
    return ids_[part];
  }

  /// The content of an item that has one.
  [[nodiscard]] static Json content_of(const ReplyPart& part, const std::string& text) {
    if (part.kind == Kind::reasoning) return {{"type", "reasoning_text"}, {"text", text}};
    return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
  }

  [[nodiscard]] Json item_of(std::size_t number, bool begins) {
    const ChatReply& reply = replies().front();
    const ReplyPart& part = reply.parts[number];
    const bool cut = part.broken || (reply.end == TextEnd::length && number + 1 == reply.parts.size());
    const std::string_view status = begins ? "in_progress" : cut ? "incomplete" : "completed";
    if (part.kind == Kind::call) {
      return {{"type", "function_call"},
              {"id", id_of(number)},
              {"call_id", part.id},
              {"name", part.name},
              {"arguments", begins ? std::string() : part.text},
              {"status", status}};
    }
    Json item = {{"type", part.kind == Kind::text ? "message" : "reasoning"}, {"id", id_of(number)}, {"status", status}};
    item["content"] = begins ? Json::array() : Json::array({content_of(part, part.text)});
    if (part.kind == Kind::text) {
      item["role"] = "assistant";
    } else {
      item["summary"] = Json::array();
      item["encrypted_content"] = nullptr;
    }
    return item;
  }

  [[nodiscard]] Json usage_of(const ChatReply& reply) const {
    const TextStats& s = reply.stats;
    Json in = Json::object(), out = Json::object();
    in["cached_tokens"] = s.reused_tokens;
    out["reasoning_tokens"] = reply.reasoning_tokens;
    return {{"input_tokens", s.prompt_tokens},
            {"input_tokens_details", std::move(in)},
            {"output_tokens", s.generated_tokens},
            {"output_tokens_details", std::move(out)},
            {"total_tokens", s.prompt_tokens + s.generated_tokens}};
  }

  /// The response as it stands.
  [[nodiscard]] Json response(std::string_view status) {
    const ChatReply& reply = replies().front();
    Json output = Json::array();
    const bool ended = reply.end != TextEnd::running;
    for (std::size_t i = 0; ended && i < reply.parts.size(); ++i) {
      // A stream began it, and numbered what came behind it.
      if (asked().stream || !reply.parts[i].broken) output.push_back(item_of(i, false));
    }
    Json json = {{"id", id_}, {"object", "response"}, {"created_at", created_}, {"status", status}, {"model", name_}};
    json["completed_at"] = ended ? Json(unix_time()) : Json();
    for (const auto& [key, value] : frame_.items()) json[key] = value;
    json["output"] = std::move(output);
    json["usage"] = ended ? usage_of(reply) : Json();
    if (status == "incomplete") json["incomplete_details"] = Json{{"reason", "max_output_tokens"}};
    return json;
  }

  [[nodiscard]] Json ended_response() {
    Json json = response(replies().front().end == TextEnd::length ? "incomplete" : "completed");
    if (!kept_) return json;
    kept_->messages.push_back(replies().front().message());
    kept_->response = json;
    app().common.responses.put(id_, *std::move(kept_));
    return json;
  }

  void say(std::string_view type, Json more) {
    Json json = Json::object();
    json["type"] = type;
    json["sequence_number"] = sequence_++;
    for (const auto& [key, value] : more.items()) json[key] = value;
    event(json, type);
  }

  void say_response(std::string_view type, Json response) {
    Json more = Json::object();
    more["response"] = std::move(response);
    say(type, std::move(more));
  }

  void begin_reply(std::size_t) override {
    say_response("response.created", response("in_progress"));
    say_response("response.in_progress", response("in_progress"));
  }

  /// Where in the response a part is.
  [[nodiscard]] Json place_of(const ReplyPart& part, std::size_t number) {
    Json place = {{"item_id", id_of(number)}, {"output_index", number}};
    if (part.kind != Kind::call) place["content_index"] = 0;
    return place;
  }

  void begin_part(std::size_t, std::size_t number) override {
    const ReplyPart& part = replies().front().parts[number];
    say("response.output_item.added", {{"output_index", number}, {"item", item_of(number, true)}});
    if (part.kind == Kind::call) return;
    Json more = place_of(part, number);
    more["part"] = content_of(part, "");
    say("response.content_part.added", std::move(more));
  }

  void say_piece(std::size_t, std::size_t number, std::string_view piece) override {
    const ReplyPart& part = replies().front().parts[number];
    Json more = place_of(part, number);
    more["delta"] = piece;
    if (part.kind == Kind::text) more["logprobs"] = Json::array();
    say(part.kind == Kind::text        ? "response.output_text.delta"
        : part.kind == Kind::reasoning ? "response.reasoning_text.delta"
                                       : "response.function_call_arguments.delta",
        std::move(more));
  }

  void end_part(std::size_t, std::size_t number) override {
    const ReplyPart& part = replies().front().parts[number];
    Json more = place_of(part, number);
    if (part.kind == Kind::call) {
      more["name"] = part.name;
      more["arguments"] = part.text;
      say("response.function_call_arguments.done", std::move(more));
    } else {
      Json whole_part = more;
      whole_part["part"] = content_of(part, part.text);
      more["text"] = part.text;
      if (part.kind == Kind::text) more["logprobs"] = Json::array();
      say(part.kind == Kind::text ? "response.output_text.done" : "response.reasoning_text.done", std::move(more));
      say("response.content_part.done", std::move(whole_part));
    }
    say("response.output_item.done", {{"output_index", number}, {"item", item_of(number, false)}});
  }

  void end_reply(std::size_t) override {
    Json json = ended_response();
    const std::string type = message("response.", json["status"].string());
    say_response(type, std::move(json));
  }

  void end_stream() override { done(); }
  void end_stream_with(const ApiError& error) override {
    Json json = response("failed");
    json["error"] = Json{{"code", error.status() == 503 ? "server_is_overloaded" : "server_error"}, {"message", std::string(error.what())}};
    say_response("response.failed", std::move(json));
    done();
  }
  [[nodiscard]] Json whole() override { return ended_response(); }

  const std::string id_ = random_id("resp_", 48), name_ = app().options.name;
  const Json frame_;
  std::optional<StoredResponse> kept_;
  std::vector<std::string> ids_;  ///< of items
  std::int64_t sequence_ = 0;
};

/// A stored response by the end of a path, "/v1/responses/ID" or with `behind` it.
std::string_view response_id_of(std::string_view path) {
  constexpr std::string_view folder = "/responses/";
  const std::string_view rest = path.substr(path.find(folder) + folder.size());
  return rest.substr(0, rest.find('/'));
}

std::shared_ptr<const StoredResponse> stored_response(Common& common, std::string_view id, std::string_view param) {
  auto found = common.responses.find(id);
  if (found == nullptr) throw ApiError(404, "invalid_request_error", message("the response ", printable(id), " is not there, or no longer"), param);
  return found;
}

/// What a request asks about: its input, and the conversation up to it.
StoredResponse conversation_of(App& app, const Fields& fields) {
  StoredResponse kept{.messages = Json::array(), .input = response_input(fields), .response = nullptr};
  if (const auto id = fields.text("previous_response_id")) kept.messages = stored_response(app.common, *id, "previous_response_id")->messages;
  for (Json& one : messages_of_items(kept.input)) kept.messages.push_back(std::move(one));
  return kept;
}

}  // namespace

void responses(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  const Fields fields(body);
  StoredResponse kept = conversation_of(app, fields);
  for (Json& item : kept.input) {
    if (!item.contains("type")) item["type"] = "message";
    if (!item.contains("id")) item["id"] = random_id("msg_", 32);
  }
  ChatAsked chat = read_chat(app, chat_of_response(body, kept.messages));
  check_single(chat.asked);
  const bool stores = fields.flag("store", true);
  std::make_shared<ResponseWriting>(app, exchange, std::move(chat), body, stores ? std::optional(std::move(kept)) : std::nullopt)->start();
}

void count_response_tokens(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  const Fields fields(body);
  app.check_model(fields);
  const Json chat = chat_of_response(body, conversation_of(app, fields).messages);
  app.answer(*exchange, Json{{"object", "response.input_tokens"}, {"input_tokens", count_chat_tokens(app, chat)}});
}

void get_response(Models& models, const std::shared_ptr<Exchange>& exchange) {
  const std::string_view path = exchange->request().path;
  const auto found = stored_response(models.common(), response_id_of(path), {});
  if (!path.ends_with("/input_items")) return models.common().answer(*exchange, found->response);
  const Json& items = found->input;
  Json list = {{"object", "list"}, {"data", items}, {"has_more", false}};
  list["first_id"] = items[0]["id"];
  list["last_id"] = items[items.size() - 1]["id"];
  models.common().answer(*exchange, list);
}

void delete_response(Models& models, const std::shared_ptr<Exchange>& exchange) {
  const std::string id(response_id_of(exchange->request().path));
  (void)stored_response(models.common(), id, {});
  models.common().responses.erase(id);
  models.common().answer(*exchange, Json{{"id", id}, {"object", "response"}, {"deleted", true}});
}

}  // namespace bantam::server
