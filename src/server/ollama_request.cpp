// Requests of Ollama's API in the words of OpenAI's chats.
#include <algorithm>

#include "server/dialects.hpp"

namespace bantam::server {

namespace {

/// What has the same name in both; what says how much memory a text gets (num_ctx, num_gpu, ...) is the server's to know.
constexpr std::string_view shared_options[] = {"temperature", "top_k",   "top_p",          "min_p",            "typical_p",         "repeat_last_n", "repeat_penalty",
                                               "seed",        "stop",    "mirostat",       "presence_penalty", "frequency_penalty", "mirostat_eta",  "mirostat_tau"};

void add_options(const Fields& fields, Json& chat) {
  const Json* options = fields.object("options");
  if (options == nullptr) return;
  const Fields inside(*options, "options");
  for (const std::string_view name : shared_options) {
    if (const Json* value = inside.find(name)) chat[name] = *value;
  }
  // -2 fills the context, which -1 does where the model never ends.
  if (const auto most = inside.integer("num_predict", -2)) chat["n_predict"] = std::max<std::int64_t>(*most, -1);
}

void add_format(const Fields& fields, Json& chat) {
  const Json* format = fields.find("format");
  if (format == nullptr || *format == Json("")) return;
  if (*format == Json("json")) {
    chat["response_format"] = Json{{"type", "json_object"}};
  } else if (format->is_object()) {
    Json named = Json::object(), form = {{"type", "json_schema"}};
    named["schema"] = *format;
    form["json_schema"] = std::move(named);
    chat["response_format"] = std::move(form);
  } else {
    refuse("format", "json or a schema", *format);
  }
}

/// Whether to think, or how much.
void add_thinking(const Fields& fields, Json& chat) {
  const Json* think = fields.find("think");
  if (think == nullptr) return;
  if (!think->is_string()) return set_kwarg(chat, "enable_thinking", fields.flag("think", true));
  chat["reasoning_effort"] = *think;
  set_kwarg(chat, "enable_thinking", true);
}

/// What requests have beside messages.
Json chat_with(const Json& body, Json messages) {
  const Fields fields(body);
  Json chat = others_of(body, {"messages", "prompt", "system", "raw", "options", "format", "think", "keep_alive"});
  chat["messages"] = std::move(messages);
  chat["stream"] = fields.flag("stream", true);
  add_options(fields, chat);
  add_format(fields, chat);
  add_thinking(fields, chat);
  return chat;
}

/// Calls of a message, and those whose results did not come yet: messages with results say which by their order, or by the name alone.
class Calls {
 public:
  [[nodiscard]] Json add(const Json& given, const std::string& place) {
    Json out = Json::array();
    open_.clear();
    for (std::size_t i = 0; i < given.size(); ++i) {
      const std::string at = message(place, ".tool_calls[", i, ']');
      if (!given[i].is_object()) refuse(at, "an object", given[i]);
      const Fields call(given[i], at);
      const Json* function = call.object("function");
      if (function == nullptr) throw bad_request(at + ".function: expected an object, found none", "messages");
      const Fields inside(*function, at + ".function");
      const std::string id = call.text("id").value_or(message("call_", ++count_)), name = needed_text(inside, "name");
      const Json* arguments = inside.object("arguments");
      out.push_back(function_call(id, name, arguments == nullptr ? "{}" : arguments->dump()));
      open_.emplace_back(id, name);
    }
    return out;
  }
  /// Of a message with a result: id and name of the call.
  [[nodiscard]] std::pair<std::string, std::string> answered(const std::string& name) {
    const auto named = std::ranges::find(open_, name, &std::pair<std::string, std::string>::second);
    const auto found = named != open_.end() ? named : open_.begin();
    if (found == open_.end()) return {{}, name};
    std::pair<std::string, std::string> call = std::move(*found);
    open_.erase(found);
    return call;
  }

 private:
  std::vector<std::pair<std::string, std::string>> open_;
  int count_ = 0;
};

Json messages_of(const Json& given) {
  Json out = Json::array();
  Calls calls;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string place = message("messages[", i, "]");
    if (!given[i].is_object()) refuse(place, "an object", given[i]);
    const Fields fields(given[i], place);
    fields.not_yet({"images"});
    Json one = {{"role", needed_text(fields, "role")}, {"content", fields.text("content").value_or("")}};
    if (const auto thinking = fields.text("thinking")) one["reasoning_content"] = *thinking;
    if (const Json* made = fields.array("tool_calls"); made != nullptr && !made->empty()) one["tool_calls"] = calls.add(*made, place);
    if (one["role"] == Json("tool")) {
      const auto [id, name] = calls.answered(fields.text("tool_name").value_or(""));
      one["tool_call_id"] = fields.text("tool_call_id").value_or(id);
      if (!name.empty()) one["name"] = name;
    }
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

Json chat_of_ollama(const Json& body) {
  return chat_with(body, messages_of(*Fields(body).array("messages")));
}

Json chat_of_ollama_prompt(const Json& body, const std::string& prompt) {
  const Fields fields(body);
  fields.not_yet({"suffix", "template", "context", "images"});
  Json messages = Json::array();
  if (const auto system = fields.text("system"); system && !system->empty()) messages.push_back({{"role", "system"}, {"content", *system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return chat_with(body, std::move(messages));
}

}  // namespace bantam::server
