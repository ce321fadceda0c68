// POST /v1/chat/completions: conversations, replies told apart while they stream, tools.
#include <algorithm>

#include "bantam/text/reply.hpp"
#include "server/writing.hpp"

namespace bantam::server {

namespace {

/// How a reply may call tools.
enum class ToolUse : std::uint8_t {
  none,     ///< what looks like a call is text
  free,     ///< the model decides, and marks calls in its way
  must,     ///< the reply is one call, JSON with name and parameters
  named,    ///< the reply is the arguments of `name`
};

struct ToolChoice {
  ToolUse use = ToolUse::none;
  std::string name = {};
  Json tools = nullptr;  ///< as they were given
};

struct ChatAsked {
  Asked asked;
  ToolChoice tools;
  std::string prompt_end;  ///< of the prompt, where templates open the reasoning
  bool is_plain = false;   ///< JSON comes and nothing else: no marks
};

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

ChatAsked read_chat(App& app, const Json& body) {
  const Fields fields(body);
  app.check_model(fields);
  fields.not_yet({"audio", "modalities", "echo", "continue_final_message", "chat_template", "web_search_options"});
  if (const auto format = fields.text("reasoning_format"); format && *format != "auto" && *format != "deepseek") {
    throw bad_request(message("reasoning_format: expected auto or deepseek, found ", printable(*format)), "reasoning_format");
  }
  ChatAsked chat{.asked = read_asked(app, fields, -1), .tools = read_tools(fields), .prompt_end = {}};
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
  chat.is_plain = forced || chat.asked.is_json;
  if (!chat.is_plain) generate.spell = app.reply_marks;
  const std::string prompt = chat_prompt_of(app, body, chat.tools.use != ToolUse::none);
  constexpr std::size_t longest_end = 1024;
  chat.prompt_end = prompt.substr(prompt.size() - std::min(prompt.size(), longest_end));
  // Templates write special tokens, BOS among them.
  chat.asked.texts.prompts = {app.tokenizer().encode(prompt, {.add_special = false, .parse_special = true})};
  return chat;
}

class ChatWriting final : public Writing {
 public:
  ChatWriting(App& app, std::shared_ptr<Exchange> exchange, ChatAsked chat)
      : Writing(app, std::move(exchange), std::move(chat.asked)), tools_(std::move(chat.tools)) {
    const std::string tools = tools_.tools.is_null() ? std::string() : tools_.tools.dump();
    const bool forced = tools_.use == ToolUse::must;
    const std::string_view form = forced ? "llama-3" : chat.is_plain ? "text" : this->app().reply_form;
    for (int i = 0; i < asked().texts.count; ++i) {
      const ReplyOptions options{.prompt = chat.is_plain ? std::string_view() : std::string_view(chat.prompt_end),
                                 .tools = tools,
                                 .calls = forced || (tools_.use == ToolUse::free && !chat.is_plain)};
      choices_.push_back({.parser = ReplyParser(form, options)});
    }
  }

 private:
  struct Choice {
    ReplyParser parser;
    ParsedReply reply = {};
    std::vector<std::size_t> numbers = {};  ///< of the calls in `reply`
    std::vector<std::string> ids = {};      ///< of calls by number
    Json logprobs = Json::array();          ///< that no event, or nothing at all yet, carried
    bool begun = false;
    bool called = false;  ///< by name: the arguments are all that comes
    TextEnd end = TextEnd::running;
    TextStats stats = {};
  };

  void take(const Update& update) override {
    Choice& choice = choices_[update.text];
    const bool ends = update.end != TextEnd::running;
    if (asked().logprobs) {
      for (const DrawnToken& token : update.tokens) choice.logprobs.push_back(logprob_entry(token));
    }
    if (asked().stream && !std::exchange(choice.begun, true)) {
      Json first = Json::object();
      first["role"] = "assistant";
      first["content"] = tools_.use == ToolUse::named ? Json() : Json("");
      say(update.text, std::move(first), nullptr);
    }
    if (tools_.use == ToolUse::named) {
      take_arguments(update);
    } else {
      for (const ReplyEvent& event : choice.parser.feed(update.piece)) take_event(update.text, event);
      if (ends) {
        for (const ReplyEvent& event : choice.parser.finish()) take_event(update.text, event);
      }
    }
    if (!ends) return;
    choice.end = update.end;
    choice.stats = update.stats;
    if (asked().stream) say(update.text, Json::object(), reason_of(choice));
  }

  void take_arguments(const Update& update) {
    Choice& choice = choices_[update.text];
    const bool first = choice.reply.calls.empty();
    if (first) choice.reply.calls.push_back({.id = random_id("call_", 24), .name = tools_.name, .arguments = {}});
    ToolCall& call = choice.reply.calls.front();
    call.arguments += update.piece;
    if (!asked().stream) return;
    if (first) say_call(update.text, 0, call.id, call.name, update.piece);
    if (!first && !update.piece.empty()) say_call(update.text, 0, {}, {}, update.piece);
  }

  void take_event(std::size_t text, const ReplyEvent& event) {
    using Kind = ReplyEvent::Kind;
    Choice& choice = choices_[text];
    add_event(choice.reply, choice.numbers, event);
    if (event.kind == Kind::call) {
      choice.ids.resize(std::max(choice.ids.size(), event.call + 1));
      choice.ids[event.call] = event.id.empty() ? random_id("call_", 24) : event.id;
    }
    if (!asked().stream) return;
    const auto say_text = [&](std::string_view name) {
      if (event.text.empty()) return;
      Json delta = Json::object();
      delta[name] = event.text;
      say(text, std::move(delta), nullptr);
    };
    switch (event.kind) {
      case Kind::text:
      case Kind::call_broken: return say_text("content");
      case Kind::reasoning: return say_text("reasoning_content");
      case Kind::call: return say_call(text, event.call, choice.ids[event.call], event.text, "");
      case Kind::arguments: return say_call(text, event.call, {}, {}, event.text);
      case Kind::call_end:
      case Kind::markup: return;
    }
  }

  /// A piece of a call: the first has its id and name.
  void say_call(std::size_t text, std::size_t number, const std::string& id, const std::string& name, const std::string& arguments) {
    Json function = Json::object(), call = Json::object(), delta = Json::object();
    call["index"] = number;
    if (!id.empty()) {
      call["id"] = id;
      call["type"] = "function";
      function["name"] = name;
    }
    function["arguments"] = arguments;
    call["function"] = std::move(function);
    delta["tool_calls"] = Json::array({std::move(call)});
    say(text, std::move(delta), nullptr);
  }

  void say(std::size_t text, Json delta, Json reason) {
    Choice& choice = choices_[text];
    Json one = Json::object();
    one["index"] = text;
    one["delta"] = std::move(delta);
    one["logprobs"] = nullptr;
    if (asked().logprobs && choice.logprobs.size() > 0) {
      Json logprobs = Json::object();
      logprobs["content"] = std::exchange(choice.logprobs, Json::array());
      one["logprobs"] = std::move(logprobs);
    }
    const bool ends = !reason.is_null();
    one["finish_reason"] = std::move(reason);
    Json json = frame("chat.completion.chunk");
    json["choices"] = Json::array({std::move(one)});
    if (asked().include_usage) json["usage"] = nullptr;
    if (ends) json["timings"] = timings(choice.stats);
    event(json);
  }

  [[nodiscard]] Json frame(std::string_view object) const {
    return {{"id", id_}, {"object", object}, {"created", created_}, {"model", name_}, {"system_fingerprint", "bantam"}};
  }

  [[nodiscard]] static std::string_view reason_of(const Choice& choice) {
    return choice.end == TextEnd::stop && !choice.reply.calls.empty() ? "tool_calls" : finish_reason(choice.end);
  }

  void end_stream() override {
    if (asked().include_usage) {
      Json json = frame("chat.completion.chunk");
      json["choices"] = Json::array();
      json["usage"] = usage();
      event(json);
    }
    done();
  }

  [[nodiscard]] Json message_of(Choice& choice) const {
    Json calls = Json::array();
    for (std::size_t i = 0; i < choice.reply.calls.size(); ++i) {
      const ToolCall& call = choice.reply.calls[i];
      const bool numbered = call.id.empty() && i < choice.numbers.size() && choice.numbers[i] < choice.ids.size();
      Json function = Json::object(), json = Json::object();
      function["name"] = call.name;
      function["arguments"] = call.arguments;
      json["id"] = numbered ? choice.ids[choice.numbers[i]] : call.id;
      json["type"] = "function";
      json["function"] = std::move(function);
      calls.push_back(std::move(json));
    }
    Json said = Json::object();
    said["role"] = "assistant";
    said["content"] = choice.reply.text.empty() && !calls.empty() ? Json() : Json(choice.reply.text);
    if (!choice.reply.reasoning.empty()) said["reasoning_content"] = choice.reply.reasoning;
    if (!calls.empty()) said["tool_calls"] = std::move(calls);
    return said;
  }

  [[nodiscard]] Json whole() override {
    Json choices = Json::array();
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      Json one = Json::object();
      one["index"] = i;
      one["message"] = message_of(choices_[i]);
      one["logprobs"] = nullptr;
      if (asked().logprobs) {
        Json logprobs = Json::object();
        logprobs["content"] = std::move(choices_[i].logprobs);
        one["logprobs"] = std::move(logprobs);
      }
      one["finish_reason"] = reason_of(choices_[i]);
      choices.push_back(std::move(one));
    }
    Json json = frame("chat.completion");
    json["choices"] = std::move(choices);
    json["usage"] = usage();
    json["timings"] = timings(choices_.front().stats);
    return json;
  }

  const std::string id_ = random_id("chatcmpl-", 32), name_ = app().options.name;
  ToolChoice tools_;
  std::vector<Choice> choices_;
};

}  // namespace

std::string chat_prompt_of(const App& app, const Json& body, bool with_tools) {
  const Fields fields(body);
  const Json* messages = fields.array("messages");
  if (messages == nullptr) throw bad_request("messages: expected an array, found none", "messages");
  check_messages(*messages);
  Json context = Json::object();
  if (const Json* more = fields.object("chat_template_kwargs")) context = *more;
  context["messages"] = *messages;
  // Templates but for gpt-oss's know no developers.
  if (app.template_source.find("developer") == std::string::npos) {
    for (Json& one : context["messages"]) {
      if (one["role"] == Json("developer")) one["role"] = "system";
    }
  }
  if (const Json* tools = fields.array("tools"); tools != nullptr && with_tools && !tools->empty()) context["tools"] = *tools;
  if (const Json* effort = fields.find("reasoning_effort")) context["reasoning_effort"] = *effort;
  context["add_generation_prompt"] = fields.flag("add_generation_prompt", true);
  return chat_prompt_json(app.chat_template, app.tokenizer(), context.dump());
}

void chat_completions(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  std::make_shared<ChatWriting>(app, exchange, read_chat(app, body))->start();
}

}  // namespace bantam::server
