// The calls of Gemma 4, LFM2 and MiniMax M3.
#include "text/reply/blocks.hpp"

#include <algorithm>

#include "text/reply/json_scanner.hpp"

namespace bantam::inline v0::reply {

namespace {

/// Names of functions in real schemas stay below 64 bytes.
constexpr std::size_t longest_name = 256;
constexpr int deepest_block = static_cast<int>(deepest_value);

class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }
  bool take(std::string_view literal) {
    if (!rest().starts_with(literal)) return false;
    at_ += literal.size();
    return true;
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  /// Until one of the bytes; the rest where none comes.
  std::string_view until_any(std::string_view bytes) { return part(text_.find_first_of(bytes, at_)); }
  /// Until a text.
  std::string_view until(std::string_view text) { return part(text_.find(text, at_)); }
  std::size_t& position() { return at_; }
  [[nodiscard]] std::string_view text() const { return text_; }

 private:
  std::string_view part(std::size_t end) {
    const std::string_view made = text_.substr(at_, end - at_);
    at_ += made.size();
    return made;
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

// Gemma 4 -------------------------------------------------------------------------------------------------------------

constexpr std::string_view gemma_quote = "<|\"|>";

bool gemma_text(Cursor& in, std::string& out) {
  const std::string_view inside = in.until(gemma_quote);
  if (!in.take(gemma_quote)) return false;
  out += in_quotes(inside);
  return true;
}

bool gemma_value(Cursor& in, std::string& out, const Json* schema, int depth);

bool gemma_object(Cursor& in, std::string& out, const Json* schema, int depth) {
  out += '{';
  const Json* properties = schema == nullptr ? nullptr : schema->find("properties");
  for (bool first = true; in.skip_space(), !in.take("}"); first = false) {
    if (!first) {
      if (!in.take(",")) return false;
      in.skip_space();
      out += ", ";
    }
    std::string_view name;
    if (in.take(gemma_quote)) {
      name = in.until(gemma_quote);
      if (!in.take(gemma_quote)) return false;
    } else {
      name = trimmed(in.until_any(":,{}[]"));
      if (name.size() >= 2 && name.front() == '"' && name.back() == '"') name = name.substr(1, name.size() - 2);
    }
    in.skip_space();
    if (!in.take(":")) return false;
    out += in_quotes(name) + ": ";
    if (!gemma_value(in, out, properties == nullptr ? nullptr : properties->find(name), depth + 1)) return false;
  }
  out += '}';
  return true;
}

bool gemma_value(Cursor& in, std::string& out, const Json* schema, int depth) {
  if (depth > deepest_block) return false;
  in.skip_space();
  if (in.take(gemma_quote)) return gemma_text(in, out);
  if (in.take("{")) return gemma_object(in, out, schema, depth);
  if (in.take("[")) {
    out += '[';
    const Json* items = schema == nullptr ? nullptr : schema->find("items");
    for (bool first = true; in.skip_space(), !in.take("]"); first = false) {
      if (!first && !in.take(",")) return false;
      if (!first) out += ", ";
      if (!gemma_value(in, out, items, depth + 1)) return false;
    }
    out += ']';
    return true;
  }
  if (in.rest().starts_with('"')) return read_python(in.text(), in.position(), out);
  const std::string_view word = trimmed(in.until_any(",]}\n"));
  if (word.empty()) return false;
  out += typed(word, schema);
  return true;
}

// LFM2 ----------------------------------------------------------------------------------------------------------------

bool pythonic_call(Cursor& in, CallSink& sink) {
  ToolCall call{.id = {}, .name = std::string(trimmed(in.until_any("(,] \n"))), .arguments = "{"};
  if (!is_name(call.name) || !in.take("(")) return false;
  for (bool first = true; in.skip_space(), !in.take(")"); first = false) {
    if (!first) {
      if (!in.take(",")) return false;
      in.skip_space();
      if (in.take(")")) break;
      call.arguments += ", ";
    }
    const std::string_view name = trimmed(in.until_any("=,()"));
    if (name.empty() || !in.take("=")) return false;
    call.arguments += in_quotes(name) + ": ";
    if (!read_python(in.text(), in.position(), call.arguments)) return false;
  }
  call.arguments += '}';
  sink.calls.push_back(std::move(call));
  return true;
}

// MiniMax M3 ----------------------------------------------------------------------------------------------------------

constexpr std::string_view minimax = "]<]minimax[>[";

/// The mark and an opening tag, whose name it gives; false leaves the cursor where it stood.
bool open_tag(Cursor& in, std::string_view& name) {
  const std::size_t before = in.position();
  if (in.take(minimax) && in.take("<") && !in.rest().starts_with('/')) {
    name = in.until_any(">\n");
    if (!name.empty() && in.take(">")) return true;
  }
  in.position() = before;
  return false;
}

bool close_tag(Cursor& in, std::string_view name) { return in.take(minimax) && in.take("</") && in.take(name) && in.take(">"); }

/// What stands between two tags.
bool minimax_value(Cursor& in, std::string& out, const Json* schema, int depth) {
  if (depth > deepest_block) return false;
  std::string_view name;
  const std::size_t begin = in.position();
  in.skip_space();
  if (!open_tag(in, name)) {
    in.position() = begin;
    out += typed(in.until(minimax), schema);
    return true;
  }
  const bool list = may_be(schema, "array") && (name == "item" || !may_be(schema, "object"));
  const Json* properties = schema == nullptr ? nullptr : schema->find(list ? "items" : "properties");
  out += list ? '[' : '{';
  for (bool first = true;; first = false) {
    if (!first) {
      in.skip_space();
      if (!open_tag(in, name)) break;
      out += ", ";
    }
    if (list && name != "item") return false;
    if (!list) out += in_quotes(name) + ": ";
    const Json* inner = list || properties == nullptr ? properties : properties->find(name);
    if (!minimax_value(in, out, inner, depth + 1) || !close_tag(in, name)) return false;
  }
  out += list ? ']' : '}';
  return true;
}

bool minimax_call(Cursor& in, const Tools& tools, CallSink& sink) {
  if (!in.take(minimax) || !in.take("<invoke name=\"")) return false;
  ToolCall call{.id = {}, .name = std::string(in.until_any("\"\n")), .arguments = "{"};
  if (!is_name(call.name) || !in.take("\">")) return false;
  std::string_view name;
  for (bool first = true; in.skip_space(), open_tag(in, name); first = false) {
    if (!first) call.arguments += ", ";
    call.arguments += in_quotes(name) + ": ";
    if (!minimax_value(in, call.arguments, tools.argument(call.name, name), 0) || !close_tag(in, name)) return false;
  }
  call.arguments += '}';
  if (!close_tag(in, "invoke")) return false;
  sink.calls.push_back(std::move(call));
  return true;
}

}  // namespace

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= longest_name && std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f || std::string_view("\"'<>{}()[],`").find(c) != std::string_view::npos;
  });
}

bool read_gemma4(std::string_view block, const Tools& tools, CallSink& sink) {
  Cursor in(trimmed(block));
  if (!in.take("call:")) return false;
  ToolCall call{.id = {}, .name = std::string(trimmed(in.until_any("{\n"))), .arguments = {}};
  if (!is_name(call.name) || !in.take("{")) return false;
  // Arguments that came as a text stand there as they were: JSON in braces.
  if (in.rest().starts_with('{') && in.rest().ends_with("}}") && is_json(in.rest().substr(0, in.rest().size() - 1))) {
    call.arguments = in.rest().substr(0, in.rest().size() - 1);
    sink.calls.push_back(std::move(call));
    return true;
  }
  if (!gemma_object(in, call.arguments, tools.parameters(call.name), 0)) return false;
  in.skip_space();
  if (!in.at_end()) return false;
  sink.calls.push_back(std::move(call));
  return true;
}

bool read_pythonic(std::string_view block, const Tools&, CallSink& sink) {
  Cursor in(trimmed(block));
  const bool list = in.take("[");
  for (bool first = true;; first = false) {
    in.skip_space();
    if (list && in.take("]")) break;
    if (!list && !first && in.at_end()) break;
    if (!first && !in.take(list ? "," : ";")) return false;
    in.skip_space();
    if (!pythonic_call(in, sink)) return false;
  }
  in.skip_space();
  return in.at_end() && !sink.calls.empty();
}

bool read_minimax_m3(std::string_view block, const Tools& tools, CallSink& sink) {
  Cursor in(block);
  for (in.skip_space(); !in.at_end(); in.skip_space()) {
    if (!minimax_call(in, tools, sink)) return false;
  }
  return !sink.calls.empty();
}

}  // namespace bantam::inline v0::reply
