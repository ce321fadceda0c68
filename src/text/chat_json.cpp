// Conversations in the shape of OpenAI's API, made ready for chat templates.
#include "bantam/text/chat_template.hpp"
#include "bantam/text/tokenizer.hpp"
#include "io/json.hpp"

namespace bantam::inline v0 {

namespace {

/// The text of parts like {"type": "text", "text": "..."}.
std::string joined(const Json& parts, const std::string& place) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    const Json* type = part.find("type");
    const Json* words = part.find("text");
    if (part.is_object() && type != nullptr && type->is_string() && type->string() != "text") {
      fail(Errc::unsupported, place, "[", i, "]: expected a part of type text, found ", printable(type->string()));
    }
    if (words == nullptr || !words->is_string()) fail(Errc::invalid_argument, place, "[", i, "]: expected a part with a text, found none");
    text += words->string();
  }
  return text;
}

void prepare(Json& message, const std::string& place) {
  if (!message.is_object()) fail(Errc::invalid_argument, place, ": expected an object, found a ", message.type_name());
  const Json* role = message.find("role");
  if (role == nullptr || !role->is_string()) fail(Errc::invalid_argument, place, ".role: expected a text, found ", role == nullptr ? "nothing" : role->type_name());
  if (const Json* content = message.find("content")) {
    if (content->is_array()) {
      message["content"] = joined(*content, place + ".content");
    } else if (!content->is_string() && !content->is_null()) {
      fail(Errc::invalid_argument, place, ".content: expected a text, parts or null, found a ", content->type_name());
    }
  }
  if (!message.contains("tool_calls")) return;
  for (Json& call : message["tool_calls"]) {
    if (!call.is_object()) fail(Errc::invalid_argument, place, ".tool_calls: expected objects, found a ", call.type_name());
    Json& function = call.contains("function") ? call["function"] : call;
    const Json* arguments = function.find("arguments");
    if (arguments == nullptr || !arguments->is_string()) continue;
    Json parsed = Json::parse_or_null(arguments->string());
    if (parsed.is_object()) function["arguments"] = std::move(parsed);
  }
}

}  // namespace

std::string chat_prompt_json(const Tokenizer& tokenizer, std::string_view conversation) {
  if (tokenizer.chat_template().empty()) {
    fail(Errc::unsupported, "chat: expected a model with a chat template, this one has none: use a plain prompt");
  }
  return chat_prompt_json(ChatTemplate(tokenizer.chat_template()), tokenizer, conversation);
}

std::string chat_prompt_json(const ChatTemplate& chat_template, const Tokenizer& tokenizer, std::string_view conversation) {
  Json context;
  try {
    context = Json::parse(conversation, "conversation");
  } catch (const Error& error) {
    // The caller's text, not a file's.
    if (error.code() == Errc::corrupt) throw Error(Errc::invalid_argument, error.what());
    throw;
  }
  if (context.is_array()) {
    Json messages = std::move(context);
    context = Json::object();
    context["messages"] = std::move(messages);
  }
  if (!context.contains("messages") || !context["messages"].is_array()) {
    fail(Errc::invalid_argument, "conversation: expected an array of messages, or an object with messages, found neither");
  }
  Json& messages = context["messages"];
  for (std::size_t i = 0; i < messages.size(); ++i) prepare(messages[i], message("messages[", i, "]"));
  const auto set_if_absent = [&](std::string_view name, Json value) {
    if (!context.contains(name)) context[name] = std::move(value);
  };
  set_if_absent("add_generation_prompt", true);
  // As transformers gives them to templates, which tell them from variables that are missing.
  set_if_absent("tools", nullptr);
  set_if_absent("documents", nullptr);
  const auto spelled = [&](TokenId id) { return Json(id >= 0 ? tokenizer.piece(id) : std::string_view()); };
  set_if_absent("bos_token", spelled(tokenizer.bos()));
  set_if_absent("eos_token", spelled(tokenizer.eos()));
  return chat_template.render_json(context.dump());
}

}  // namespace bantam::inline v0
