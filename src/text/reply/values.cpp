// Types of arguments by schema, and Python's literals.
#include "text/reply/values.hpp"

#include <algorithm>

#include "text/reply/json_scanner.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0::reply {

namespace {

/// Schemas are followed so deep: anyOf in anyOf says nothing that a shallow one does not.
constexpr int deepest_choice = 4;

const Json* member(const Json* value, std::string_view key) { return value == nullptr ? nullptr : value->find(key); }

template <class F>
bool any_choice(const Json& schema, int depth, F&& f) {
  for (const std::string_view word : {"anyOf", "oneOf", "allOf"}) {
    const Json* choices = schema.find(word);
    if (choices == nullptr || !choices->is_array() || depth >= deepest_choice) continue;
    if (std::any_of(choices->begin(), choices->end(), [&](const Json& choice) { return f(choice, depth + 1); })) return true;
  }
  return false;
}

bool says_type(const Json& schema, int depth) {
  return schema.contains("type") || schema.contains("enum") || schema.contains("const") || any_choice(schema, depth, says_type);
}

bool has_type(const Json& schema, std::string_view type, int depth) {
  const auto is_type = [&](const Json& name) {
    return name.is_string() && (name.string() == type || (type == "integer" && name.string() == "number"));
  };
  if (const Json* types = schema.find("type")) {
    return types->is_array() ? std::any_of(types->begin(), types->end(), is_type) : is_type(*types);
  }
  const auto value_has = [&](const Json& value) {
    return value.type_name() == type || (type == "integer" && value.is_number());
  };
  if (const Json* values = schema.find("enum"); values != nullptr && values->is_array()) {
    return std::any_of(values->begin(), values->end(), value_has);
  }
  if (const Json* value = schema.find("const")) return value_has(*value);
  return any_choice(schema, depth, [&](const Json& choice, int deeper) { return has_type(choice, type, deeper); });
}

std::string_view type_of_json(std::string_view json) {
  switch (json[0]) {
    case '{': return "object";
    case '[': return "array";
    case '"': return "string";
    case 't':
    case 'f': return "boolean";
    case 'n': return "null";
    default: return json.find_first_of(".eE") == json.npos ? "integer" : "number";
  }
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

Tools::Tools(std::string_view json) {
  if (trimmed(json).empty()) return;
  try {
    tools_ = Json::parse(json, "tools");
  } catch (const Error& error) {
    // The caller's text, not a file's.
    if (error.code() == Errc::corrupt) throw Error(Errc::invalid_argument, error.what());
    throw;
  }
  if (tools_.is_object() && tools_.contains("tools")) {
    Json inner = tools_["tools"];
    tools_ = std::move(inner);
  }
  if (!tools_.is_array() && !tools_.is_null()) fail(Errc::invalid_argument, "tools: expected an array, found a ", tools_.type_name());
}

const Json* Tools::find(std::string_view name) const {
  for (const Json& tool : tools_) {
    const Json* function = tool.find("function");
    const Json& of = function != nullptr && function->is_object() ? *function : tool;
    const Json* named = of.find("name");
    if (named != nullptr && named->is_string() && named->string() == name) return &of;
  }
  return nullptr;
}

const Json* Tools::parameters(std::string_view tool) const { return member(find(tool), "parameters"); }

const Json* Tools::argument(std::string_view tool, std::string_view name) const {
  return member(member(parameters(tool), "properties"), name);
}

bool may_be(const Json* schema, std::string_view type) {
  return schema == nullptr || !schema->is_object() || !says_type(*schema, 0) || has_type(*schema, type, 0);
}

Allowed allowed_by(const Json* schema) {
  Allowed allowed{.text = may_be(schema, "string"), .other = false};
  for (const std::string_view type : {"number", "integer", "boolean", "null", "object", "array"}) allowed.other |= may_be(schema, type);
  return allowed;
}

void append_quoted(std::string& out, std::string_view piece) {
  const std::string repaired = utf8::is_valid(piece) ? std::string() : utf8::repaired(piece);
  for (const char c : repaired.empty() ? piece : std::string_view(repaired)) {
    if (c == '"' || c == '\\') out += '\\';
    append_strict(out, c, true);
  }
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  append_quoted(out, text);
  return out + '"';
}

std::string typed(std::string_view value, const Json* schema) {
  const Allowed allowed = allowed_by(schema);
  const std::string_view inner = trimmed(value);
  if (!allowed.other || inner.empty()) {
    if (!allowed.text && inner.empty()) return may_be(schema, "object") && !may_be(schema, "array") ? "{}" : may_be(schema, "array") ? "[]" : "null";
    return in_quotes(value);
  }
  std::string json;
  if (is_json(inner)) {
    json = inner;
  } else if (std::optional<std::string> made = python_literal(inner)) {
    json = *std::move(made);
  } else {
    return in_quotes(value);
  }
  // "5" is a text where numbers are not asked for; what fits nothing is kept as it is.
  if (allowed.text && !may_be(schema, type_of_json(json)) && type_of_json(json) != "string") return in_quotes(value);
  // Quotes that nobody asked for are a part of the text.
  if (allowed.text && type_of_json(json) == "string") return in_quotes(value);
  return json;
}

}  // namespace bantam::inline v0::reply
