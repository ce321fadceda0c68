// Requests of OpenAI's /v1/responses as chats.
#include "server/dialects.hpp"

namespace bantam::server {

namespace {

/// A text, or parts of nothing but text.
std::string parts_text(const Json& content, const std::string& place) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) refuse(place, "a text or parts", content);
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::string at = message(place, '[', i, ']');
    if (!content[i].is_object()) refuse(at, "an object", content[i]);
    const Fields part(content[i], at);
    const std::string type = part.text("type").value_or("");
    if (type == "refusal") {
      text += needed_text(part, "refusal");
    } else if (type == "input_text" || type == "output_text" || type == "text" || type == "reasoning_text" || type == "summary_text") {
      text += needed_text(part, "text");
    } else {
      const bool later = type == "input_image" || type == "input_file" || type == "input_audio";
      throw bad_request(message(at, ".type: expected a part of text, found ", printable(type), later ? ": not yet" : ""), "input");
    }
  }
  return text;
}

/// Items in a row as messages: thoughts, words and calls of one turn are one message of a chat.
class ResponseItems {
 public:
  explicit ResponseItems(Json& out) : out_(out) {}

  void add(const Json& item, const std::string& place) {
    if (!item.is_object()) refuse(place, "an object", item);
    const Fields fields(item, place);
    const std::string type = fields.text("type").value_or(item.contains("role") ? "message" : "");
    if (type == "message") return add_message(fields);
    if (type == "reasoning") return add_reasoning(fields);
    if (type == "function_call") {
      const std::string id = needed_text(fields, "call_id"), name = needed_text(fields, "name");
      turn("tool_calls").push_back(function_call(id, name, needed_text(fields, "arguments")));
    } else if (type == "function_call_output") {
      const Json* output = fields.find("output");
      if (output == nullptr) throw bad_request(place + ".output: expected a text or parts, found none", "input");
      is_turn_ = false;
      out_.push_back({{"role", "tool"}, {"tool_call_id", needed_text(fields, "call_id")}, {"content", parts_text(*output, place + ".output")}});
    } else {
      throw bad_request(message(place, ".type: expected message, reasoning, function_call or function_call_output, found ", printable(type)), "input");
    }
  }

 private:
  void add_message(const Fields& fields) {
    const std::string role = needed_text(fields, "role");
    const Json* content = fields.find("content");
    if (content == nullptr) throw bad_request(fields.name_of("content") + ": expected a text or parts, found none", "input");
    const std::string text = parts_text(*content, fields.name_of("content"));
    if (role != "assistant") {
      is_turn_ = false;
      out_.push_back({{"role", role}, {"content", text}});
      return;
    }
    Json& said = turn("content");
    said = (said.is_string() ? said.get<std::string>() : std::string()) + text;
  }

  void add_reasoning(const Fields& fields) {
    const Json* content = fields.find("content");
    const std::string place = fields.name_of("content");
    if (content == nullptr || content->empty()) content = fields.find("summary");
    if (content == nullptr || content->empty()) return;  // encrypted, which is nobody's here
    const std::string text = parts_text(*content, place);
    Json& thought = turn("reasoning_content");
    thought = (thought.is_string() ? thought.get<std::string>() : std::string()) + text;
  }

  /// A member of the assistant's turn that is being made.
  Json& turn(std::string_view name) {
    if (!std::exchange(is_turn_, true)) out_.push_back({{"role", "assistant"}, {"content", ""}});
    Json& member = out_.back()[name];
    if (member.is_null() && name == "tool_calls") member = Json::array();
    return member;
  }

  Json& out_;
  bool is_turn_ = false;
};

Json response_tools(const Json& given) {
  Json out = Json::array();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string place = message("tools[", i, ']');
    if (!given[i].is_object()) refuse(place, "an object", given[i]);
    const Fields tool(given[i], place);
    const std::string type = tool.text("type").value_or("");
    if (type != "function") throw bad_request(message(place, ".type: expected function, found ", printable(type), ", which runs at OpenAI alone"), "tools");
    out.push_back(function_tool(tool, "parameters"));
  }
  return out;
}

}  // namespace

Json response_input(const Fields& fields) {
  const Json* input = fields.find("input");
  if (input == nullptr) throw bad_request("input: expected a text or items, found none", "input");
  if (input->is_string()) {
    Json part = {{"type", "input_text"}, {"text", *input}};
    return Json::array({{{"type", "message"}, {"role", "user"}, {"content", Json::array({std::move(part)})}}});
  }
  if (!input->is_array() || input->empty()) refuse("input", "a text or items", *input);
  return *input;
}

Json messages_of_items(const Json& items) {
  Json out = Json::array();
  ResponseItems turns(out);
  for (std::size_t i = 0; i < items.size(); ++i) turns.add(items[i], message("input[", i, ']'));
  return out;
}

Json chat_of_response(const Json& body, Json messages) {
  const Fields fields(body);
  fields.not_yet({"background", "conversation", "prompt", "top_logprobs", "context_management"});
  for (const std::string& more : fields.texts("include")) {
    if (more == "message.output_text.logprobs") throw bad_request(message("include: ", more, ": not yet"), "include");
  }
  if (fields.text("truncation").value_or("disabled") != "disabled") throw bad_request("truncation: expected disabled: not yet", "truncation");
  Json chat = others_of(body, {"input", "instructions", "tools", "tool_choice", "text", "reasoning", "max_output_tokens", "include", "previous_response_id", "store", "metadata"});
  if (const auto words = fields.text("instructions")) {
    Json all = Json::array({{{"role", "system"}, {"content", *words}}});
    for (Json& one : messages) all.push_back(std::move(one));
    messages = std::move(all);
  }
  chat["messages"] = std::move(messages);
  if (const Json* tools = fields.array("tools")) chat["tools"] = response_tools(*tools);
  if (const Json* choice = fields.find("tool_choice")) {
    chat["tool_choice"] = choice->is_object() && choice->contains("name") ? named_choice(needed_text(Fields(*choice, "tool_choice"), "name")) : *choice;
  }
  if (const Json* text = fields.object("text")) {
    if (const Json* format = Fields(*text, "text").object("format")) chat["response_format"] = format_of(Fields(*format, "text.format"));
  }
  if (const Json* reasoning = fields.object("reasoning")) {
    if (const auto effort = Fields(*reasoning, "reasoning").text("effort")) chat["reasoning_effort"] = *effort;
  }
  if (const auto count = fields.integer("max_output_tokens", 1)) chat["max_tokens"] = *count;
  return chat;
}

}  // namespace bantam::server
