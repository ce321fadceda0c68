// Parts of chats that other APIs say in other words.
#include "server/dialects.hpp"

#include <algorithm>

namespace bantam::server {

Json others_of(const Json& object, std::initializer_list<std::string_view> names) {
  Json others = Json::object();
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(names, key) == names.end()) others[key] = value;
  }
  return others;
}

std::string needed_text(const Fields& fields, std::string_view name) {
  std::optional<std::string> text = fields.text(name);
  if (!text) throw bad_request(fields.name_of(name) + ": expected a text, found none", fields.name_of(name));
  return *std::move(text);
}

Json function_tool(const Fields& tool, std::string_view parameters) {
  Json function = Json::object();
  function["name"] = needed_text(tool, "name");
  if (const Json* words = tool.find("description")) function["description"] = *words;
  if (const Json* schema = tool.object(parameters)) function["parameters"] = *schema;
  if (const Json* strict = tool.find("strict")) function["strict"] = *strict;
  return {{"type", "function"}, {"function", std::move(function)}};
}

Json named_choice(const std::string& name) {
  Json function = Json::object(), choice = Json::object();
  function["name"] = name;
  choice["type"] = "function";
  choice["function"] = std::move(function);
  return choice;
}

Json format_of(const Fields& format) {
  const std::string type = format.text("type").value_or("text");
  Json out = Json::object();
  out["type"] = type;
  if (type != "json_schema") return out;
  const Json* schema = format.object("schema");
  if (schema == nullptr) throw bad_request(format.name_of("schema") + ": expected an object, found none", format.name_of("schema"));
  Json named = Json::object();
  named["schema"] = *schema;
  out["json_schema"] = std::move(named);
  return out;
}

void set_kwarg(Json& chat, std::string_view name, Json value) {
  Json& given = chat["chat_template_kwargs"];
  if (given.is_null()) given = Json::object();
  // What is no object is refused where it is read.
  if (given.is_object() && !given.contains(name)) given[name] = std::move(value);
}

void check_single(const Asked& asked) {
  if (asked.texts.count != 1) throw bad_request(message("n: expected 1, found ", asked.texts.count), "n");
}

}  // namespace bantam::server
