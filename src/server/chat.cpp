// Reading what a chat asks for: messages, tools, and the prompt that the template makes of them.
#include "server/chat.hpp"

#include <algorithm>

#include "server/thinking_budget.hpp"

namespace bantam::server {

namespace {

const Json& function_of(const Json& tool) { return tool["function"]; }

void check_tools(const Json& tools) {
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string place = message("tools[", i, "]");
    if (!tools[i].is_object()) refuse(place, "an object", tools[i]);
    const Json* function = Fields(tools[i], place).object("function");
    if (function == nullptr) throw bad_request(place + ".function: expected an object, found none", "tools");
    const Fields fields(*function, place + ".function");
    if (fields.text("name").value_or("").empty()) throw bad_request(place + ".function.name: expected a name, found none", "tools");
    (void)fields.object("parameters");
  }
}

ToolChoice read_tools(const Fields& fields) {
  fields.not_yet({"functions", "function_call"});
  ToolChoice choice;
  const Json* tools = fields.array("tools");
  if (tools != nullptr && tools->empty()) tools = nullptr;
  if (tools != nullptr) {
    check_tools(*tools);
    choice.tools = *tools;
    choice.use = ToolUse::free;
  }
  const Json* said = fields.find("tool_choice");
  if (said == nullptr) return choice;
  if (said->is_string()) {
    const std::string_view word = said->string();
    if (word == "none") choice.use = ToolUse::none;
    if (word == "required") choice.use = ToolUse::must;
    if (word != "none" && word != "auto" && word != "required") refuse("tool_choice", "none, auto, required or a function", *said);
  } else if (said->is_object()) {
    const Json* function = Fields(*said, "tool_choice").object("function");
    choice.name = function == nullptr ? "" : Fields(*function, "tool_choice.function").text("name").value_or("");
    const bool known = tools != nullptr && std::any_of(tools->begin(), tools->end(), [&](const Json& tool) {
                         return function_of(tool)["name"].string() == choice.name;
                       });
    if (!known) throw bad_request(message("tool_choice: expected one of the tools, found ", printable(choice.name)), "tool_choice");
    choice.use = ToolUse::named;
  } else {
    refuse("tool_choice", "none, auto, required or a function", *said);
  }
  if (tools == nullptr && choice.use != ToolUse::free && choice.use != ToolUse::none)
    throw bad_request("tool_choice: expected tools with it, found none", "tool_choice");
  return choice;
}

/// A schema whose references into itself begin at `place` of another one.
Json moved(const Json& schema, const std::string& place) {
  if (schema.is_array()) {
    Json out = Json::array();
    for (const Json& item : schema) out.push_back(moved(item, place));
    return out;
  }
  if (!schema.is_object()) return schema;
  Json out = Json::object();
  for (const auto& [key, value] : schema.items()) {
    const bool is_reference = key == "$ref" && value.is_string() && value.string().starts_with('#');
    out[key] = is_reference ? Json(place + std::string(value.string().substr(1))) : moved(value, place);
  }
  return out;
}

Json parameters_of(const Json& tool) {
  const Json* parameters = function_of(tool).find("parameters");
  if (parameters != nullptr && !parameters->is_null() && !parameters->empty()) return *parameters;
  Json any = Json::object();
  any["type"] = "object";
  return any;
}

/// The schema of a reply where a tool must be called. The form is one that no model marks, so that one way fits all of them.
std::string calls_schema(const ToolChoice& choice) {
  if (choice.use == ToolUse::named) {
    for (const Json& tool : choice.tools) {
      if (function_of(tool)["name"].string() == choice.name) return parameters_of(tool).dump();
    }
  }
  Json ways = Json::array();
  for (std::size_t i = 0; i < choice.tools.size(); ++i) {
    Json name = Json::object(), properties = Json::object(), way = Json::object();
    name["const"] = function_of(choice.tools[i])["name"];
    properties["name"] = std::move(name);
    properties["parameters"] = moved(parameters_of(choice.tools[i]), message("#/anyOf/", i, "/properties/parameters"));
    way["type"] = "object";
    way["properties"] = std::move(properties);
    way["required"] = Json::array({"name", "parameters"});
    ways.push_back(std::move(way));
  }
  Json schema = Json::object();
  schema["anyOf"] = std::move(ways);
  return schema.dump();
}

void check_messages(const Json& messages) {
  if (messages.empty()) throw bad_request("messages: expected at least one, found none", "messages");
  constexpr std::string_view roles[] = {"system", "developer", "user", "assistant", "tool", "function"};
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string place = message("messages[", i, "]");
    if (!messages[i].is_object()) refuse(place, "an object", messages[i]);
    const Fields fields(messages[i], place);
    const std::string role = fields.text("role").value_or("");
    if (std::ranges::find(roles, role) == std::end(roles))
      throw bad_request(message(place, ".role: expected system, user, assistant or tool, found ", printable(role)),
                        "messages");
    const bool may_be_empty = role == "tool" || role == "function" || (role == "assistant" && fields.array("tool_calls") != nullptr);
    if (fields.find("content") == nullptr && !may_be_empty) throw bad_request(place + ".content: expected a text, found none", "messages");
  }
}

/// Messages may have no text: what a template makes of that depends on how it is said.
void set_missing_text(Json& one, bool calls_without_text) {
  const Json* content = one.find("content");
  if (content != nullptr && !content->is_null() && *content != Json("")) return;
  const Json* calls = one.find("tool_calls");
  const bool is_null = calls_without_text && calls != nullptr && !calls->empty();
  one["content"] = is_null ? Json() : Json("");
}

/// Leaves out what a template writes behind the last message, the assistant's, which is to go on.
void cut_behind_last(std::string& prompt, const Json& messages) {
  const Json& last = messages[messages.size() - 1];
  const Json* content = last.find("content");
  const std::string_view words = content != nullptr && content->is_string() ? content->string() : std::string_view();
  // Templates trim.
  const std::size_t first = words.find_first_not_of(" \t\r\n"), end = words.find_last_not_of(" \t\r\n") + 1;
  if (last["role"] != Json("assistant") || first == std::string_view::npos || last.contains("tool_calls"))
    throw bad_request("continue_final_message: expected a last message of the assistant with a text and no calls", "messages");
  const std::string_view said = words.substr(first, end - first);
  const std::size_t at = prompt.rfind(said);
  if (at == std::string::npos) throw bad_request("continue_final_message: expected a template that writes the last message as it is", "messages");
  prompt.resize(at + said.size());
}

}  // namespace

std::string chat_prompt_of(const App& app, const Json& body, bool with_tools) {
  const Fields fields(body);
  const Json* messages = fields.array("messages");
  if (messages == nullptr) throw bad_request("messages: expected an array, found none", "messages");
  check_messages(*messages);
  Json context = Json::object();
  if (const Json* more = fields.object("chat_template_kwargs")) context = *more;
  for (const auto& [name, value] : app.options.chat.template_kwargs.items()) {
    if (!context.contains(name)) context[name] = value;
  }
  context["messages"] = *messages;
  // Templates but for gpt-oss's know no developers.
  const bool knows_developers = app.template_source.find("developer") != std::string::npos;
  for (Json& one : context["messages"]) {
    if (!knows_developers && one["role"] == Json("developer")) one["role"] = "system";
    set_missing_text(one, app.calls_without_text);
  }
  if (const Json* tools = fields.array("tools"); tools != nullptr && with_tools && !tools->empty()) context["tools"] = *tools;
  if (const Json* effort = fields.find("reasoning_effort")) context["reasoning_effort"] = *effort;
  const bool goes_on = fields.flag("continue_final_message", false);
  context["add_generation_prompt"] = !goes_on && fields.flag("add_generation_prompt", true);
  std::string prompt = chat_prompt_json(app.chat_template, app.tokenizer(), context.dump());
  if (goes_on) cut_behind_last(prompt, *messages);
  return prompt;
}

bool takes_null_text(const ChatTemplate& chat_template, const Tokenizer& tokenizer) {
  constexpr std::string_view name = "probed_name";
  Json user = {{"role", "user"}, {"content", "u"}};
  Json call = {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array({function_call("call00001", std::string(name), "{}")})}};
  Json result = {{"role", "tool"}, {"tool_call_id", "call00001"}, {"name", name}, {"content", "r"}};
  Json context = Json::object();
  context["messages"] = Json::array({std::move(user), std::move(call), std::move(result)});
  try {
    const std::string prompt = chat_prompt_json(chat_template, tokenizer, context.dump());
    return prompt.find(name) != std::string::npos && prompt.find("None") == std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

std::vector<TokenId> chat_tokens(const App& app, std::string_view prompt) {
  // Templates write special tokens, BOS among them.
  return app.tokenizer().encode(prompt, {.add_special = false, .parse_special = true});
}

std::size_t count_chat_tokens(App& app, const Json& body) {
  const ToolChoice tools = read_tools(Fields(body));
  return app.replays.tokens_of(chat_prompt_of(app, body, tools.use != ToolUse::none), tools_text(tools)).size();
}

std::string tools_text(const ToolChoice& choice) { return choice.tools.is_null() ? std::string() : choice.tools.dump(); }

ChatAsked read_chat(App& app, const Json& body) {
  const Fields fields(body);
  app.check_model(fields);
  fields.not_yet({"audio", "modalities", "echo", "chat_template", "web_search_options"});
  ChatAsked chat{.asked = read_asked(app, fields, -1), .tools = read_tools(fields), .prompt = {}, .reasoning_apart = app.options.chat.reasoning_apart};
  if (const auto format = fields.text("reasoning_format")) {
    if (*format != "auto" && *format != "deepseek" && *format != "none")
      throw bad_request(message("reasoning_format: expected auto, deepseek or none, found ", printable(*format)), "reasoning_format");
    chat.reasoning_apart = *format != "none";
  }
  GenerateOptions& generate = chat.asked.texts.generate;
  chat.asked.logprobs = fields.flag("logprobs", false);
  constexpr std::int64_t most_logprobs = 20;
  const auto top = fields.integer("top_logprobs", 0, most_logprobs);
  if (top && *top > 0 && !chat.asked.logprobs) throw bad_request("top_logprobs: expected \"logprobs\": true with it", "top_logprobs");
  if (chat.asked.logprobs) chat.asked.texts.top_logprobs = static_cast<int>(top.value_or(0));
  const bool forced = chat.tools.use == ToolUse::must || chat.tools.use == ToolUse::named;
  if (forced && generate.grammar)
    throw bad_request("tool_choice: expected no response_format beside a tool that must be called", "tool_choice");
  if (forced) generate.grammar.emplace(app.grammars.get(GrammarKind::json_schema, calls_schema(chat.tools)));
  chat.is_plain = forced || chat.asked.is_answer;
  if (!chat.is_plain) generate.spell = app.reply_marks;
  chat.prompt = chat_prompt_of(app, body, chat.tools.use != ToolUse::none);
  chat.asked.texts.prompts = {chat.asked.texts.reuse ? app.replays.tokens_of(chat.prompt, tools_text(chat.tools)) : chat_tokens(app, chat.prompt)};
  cut_prompts(app, fields, "truncate_prompt_tokens", chat.asked);
  const std::int64_t budget = fields.integer("thinking_budget_tokens", -1).value_or(app.options.chat.thinking_budget);
  if (budget >= 0 && !generate.grammar) generate.process = thinking_budget(app.tokenizer(), app.reply_form, chat.prompt, budget);
  return chat;
}

}  // namespace bantam::server
