// Requests of Anthropic's /v1/messages as OpenAI's chats.
#include "server/dialects.hpp"

namespace bantam::server {

namespace {

/// Text, or blocks of nothing but text: a system prompt, the result of a tool.
std::string plain_text(const Json& content, const std::string& place) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) refuse(place, "a text or blocks", content);
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::string at = message(place, '[', i, ']');
    if (!content[i].is_object()) refuse(at, "an object", content[i]);
    const Fields block(content[i], at);
    const std::string type = block.text("type").value_or("");
    if (type != "text") throw bad_request(message(at, ".type: expected text, found ", printable(type)), place);
    text += needed_text(block, "text");
  }
  return text;
}

/// The blocks of a message, as messages of a chat: results of tools are messages of their own there.
class MessageBlocks {
 public:
  MessageBlocks(Json& out, std::string role) : out_(out), role_(std::move(role)) {}

  void add(const Json& block, const std::string& place) {
    if (!block.is_object()) refuse(place, "an object", block);
    const Fields fields(block, place);
    const std::string type = fields.text("type").value_or("");
    const bool is_assistant = role_ == "assistant";
    if (type == "text") {
      text_ += needed_text(fields, "text");
      has_text_ = true;
    } else if (type == "thinking" && is_assistant) {
      reasoning_ += needed_text(fields, "thinking");
    } else if (type == "redacted_thinking" && is_assistant) {
      // Nobody but its writer reads it.
    } else if (type == "tool_use" && is_assistant) {
      const Json* input = fields.object("input");
      if (input == nullptr) throw bad_request(place + ".input: expected an object, found none", "messages");
      const std::string id = needed_text(fields, "id");
      calls_.push_back(function_call(id, needed_text(fields, "name"), input->dump()));
    } else if (type == "tool_result" && role_ == "user") {
      flush();
      const Json* content = fields.find("content");
      out_.push_back({{"role", "tool"},
                      {"tool_call_id", needed_text(fields, "tool_use_id")},
                      {"content", content == nullptr ? std::string() : plain_text(*content, place + ".content")}});
    } else {
      throw bad_request(message(place, ".type: expected ", is_assistant ? "text, thinking or tool_use" : "text or tool_result", ", found ", printable(type),
                                type == "image" || type == "document" ? ": not yet" : ""),
                        "messages");
    }
  }

  /// What came since the last result, as a message, if anything did.
  void flush() {
    if (!has_text_ && reasoning_.empty() && calls_.empty()) return;
    Json one = Json::object();
    one["role"] = role_;
    one["content"] = std::exchange(text_, {});
    if (!reasoning_.empty()) one["reasoning_content"] = std::exchange(reasoning_, {});
    if (!calls_.empty()) one["tool_calls"] = std::exchange(calls_, Json::array());
    has_text_ = false;
    out_.push_back(std::move(one));
  }

 private:
  Json& out_;
  const std::string role_;
  std::string text_, reasoning_;
  bool has_text_ = false;
  Json calls_ = Json::array();
};

Json messages_of(const Fields& fields) {
  Json out = Json::array();
  if (const Json* system = fields.find("system")) out.push_back({{"role", "system"}, {"content", plain_text(*system, "system")}});
  const Json* given = fields.array("messages");
  if (given == nullptr || given->empty()) throw bad_request("messages: expected at least one, found none", "messages");
  for (std::size_t i = 0; i < given->size(); ++i) {
    const std::string place = message("messages[", i, "]");
    const Json& one = (*given)[i];
    if (!one.is_object()) refuse(place, "an object", one);
    const Fields inside(one, place);
    const std::string role = inside.text("role").value_or("");
    if (role != "user" && role != "assistant" && role != "system")
      throw bad_request(message(place, ".role: expected user or assistant, found ", printable(role)), "messages");
    const Json* content = inside.find("content");
    if (content == nullptr) throw bad_request(place + ".content: expected a text or blocks, found none", "messages");
    if (content->is_string()) {
      out.push_back({{"role", role}, {"content", *content}});
      continue;
    }
    if (!content->is_array()) refuse(place + ".content", "a text or blocks", *content);
    MessageBlocks blocks(out, role);
    for (std::size_t j = 0; j < content->size(); ++j) blocks.add((*content)[j], message(place, ".content[", j, ']'));
    blocks.flush();
  }
  return out;
}

Json tools_of(const Json& given) {
  Json out = Json::array();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string place = message("tools[", i, ']');
    if (!given[i].is_object()) refuse(place, "an object", given[i]);
    const Fields tool(given[i], place);
    const std::string type = tool.text("type").value_or("custom");
    if (type != "custom") throw bad_request(message(place, ".type: expected custom, found ", printable(type), ", which runs at Anthropic alone"), "tools");
    out.push_back(function_tool(tool, "input_schema"));
  }
  return out;
}

/// OpenAI's words for which tool is to be called.
Json choice_of(const Fields& choice) {
  const std::string type = choice.text("type").value_or("");
  if (type == "auto" || type == "none") return type;
  if (type == "any") return "required";
  if (type == "tool") return named_choice(needed_text(choice, "name"));
  throw bad_request(message("tool_choice.type: expected auto, any, tool or none, found ", printable(type)), "tool_choice");
}

}  // namespace

Json chat_of_messages(const Json& body) {
  const Fields fields(body);
  fields.not_yet({"mcp_servers"});
  Json chat = others_of(body, {"system", "messages", "tools", "tool_choice", "stop_sequences", "thinking", "output_config", "output_format"});
  chat["messages"] = messages_of(fields);
  // A reply that is begun goes on.
  if (chat["messages"].back()["role"] == Json("assistant")) chat["continue_final_message"] = true;
  if (const Json* tools = fields.array("tools")) chat["tools"] = tools_of(*tools);
  if (const Json* choice = fields.object("tool_choice")) chat["tool_choice"] = choice_of(Fields(*choice, "tool_choice"));
  if (fields.find("stop_sequences") != nullptr) chat["stop"] = fields.texts("stop_sequences");
  if (const Json* thinking = fields.object("thinking")) {
    const Fields inside(*thinking, "thinking");
    const std::string type = inside.text("type").value_or("");
    if (type != "enabled" && type != "disabled" && type != "adaptive")
      throw bad_request(message("thinking.type: expected enabled, adaptive or disabled, found ", printable(type)), "thinking");
    set_kwarg(chat, "enable_thinking", type != "disabled");
    if (const auto budget = inside.integer("budget_tokens", 0); budget && type == "enabled") chat["thinking_budget_tokens"] = *budget;
  }
  // The name before it was given another place.
  const Json* format = fields.object("output_format");
  if (const Json* config = fields.object("output_config")) {
    const Fields inside(*config, "output_config");
    if (const Json* given = inside.object("format")) format = given;
    if (const Json* effort = inside.find("effort")) chat["reasoning_effort"] = *effort;
  }
  if (format != nullptr) chat["response_format"] = format_of(Fields(*format, "output_config.format"));
  return chat;
}

}  // namespace bantam::server
