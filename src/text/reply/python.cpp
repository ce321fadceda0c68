// Python's literals as JSON.
#include <charconv>

#include "text/reply/json_scanner.hpp"
#include "text/reply/values.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0::reply {

namespace {

void skip_space(std::string_view text, std::size_t& at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) ++at;
}

bool take_char(std::string_view text, std::size_t& at, char c) {
  skip_space(text, at);
  if (at >= text.size() || text[at] != c) return false;
  ++at;
  return true;
}

/// \n, \x41, \u00e9, \U0001f600 behind the backslash, as bytes.
bool read_escape(std::string_view text, std::size_t& at, std::string& out) {
  const char c = text[at++];
  static constexpr std::string_view from = "abfnrtv", to = "\a\b\f\n\r\t\v";
  if (const std::size_t known = from.find(c); known != from.npos) return out += to[known], true;
  if (c == '\n') return true;
  const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (digits == 0) {
    // As in Python, what is no escape keeps its backslash.
    if (c != '\\' && c != '\'' && c != '"') out += '\\';
    out += c;
    return true;
  }
  std::uint32_t code = 0;
  if (text.size() - at < digits) return false;
  const char* const end = text.data() + at + digits;
  if (std::from_chars(text.data() + at, end, code, 16).ptr != end) return false;
  if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
  utf8::append(out, code);
  at += digits;
  return true;
}

bool read_text(std::string_view text, std::size_t& at, std::string& out) {
  const char quote = text[at++];
  std::string made;
  while (at < text.size() && text[at] != quote) {
    if (text[at] != '\\') {
      made += text[at++];
    } else if (++at >= text.size() || !read_escape(text, at, made)) {
      return false;
    }
  }
  if (at >= text.size()) return false;
  ++at;
  out += in_quotes(made);
  return true;
}

bool read_items(std::string_view text, std::size_t& at, std::string& out, int depth) {
  const bool dict = text[at] == '{';
  const char close = dict ? '}' : text[at] == '(' ? ')' : ']';
  ++at;
  out += dict ? '{' : '[';
  for (bool first = true; !take_char(text, at, close); first = false) {
    if (!first) {
      if (!take_char(text, at, ',')) return false;
      // A comma may stand at the end.
      if (take_char(text, at, close)) break;
      out += ", ";
    }
    skip_space(text, at);
    if (dict) {
      if (at >= text.size() || (text[at] != '"' && text[at] != '\'') || !read_text(text, at, out)) return false;
      if (!take_char(text, at, ':')) return false;
      out += ": ";
    }
    if (!read_python(text, at, out, depth + 1)) return false;
  }
  out += dict ? '}' : ']';
  return true;
}

}  // namespace

bool read_python(std::string_view text, std::size_t& at, std::string& out, int depth) {
  skip_space(text, at);
  if (at >= text.size() || depth >= static_cast<int>(deepest_value)) return false;
  const char c = text[at];
  if (c == '"' || c == '\'') return read_text(text, at, out);
  if (c == '[' || c == '{' || c == '(') return read_items(text, at, out, depth);
  const std::size_t begin = at;
  while (at < text.size() && std::string_view(",]}): \t\r\n").find(text[at]) == std::string_view::npos) ++at;
  const std::string_view word = text.substr(begin, at - begin);
  if (word == "True" || word == "true") return out += "true", true;
  if (word == "False" || word == "false") return out += "false", true;
  if (word == "None" || word == "null") return out += "null", true;
  if (!is_json(word) || word.find('"') != word.npos) return false;
  out += word;
  return true;
}

std::optional<std::string> python_literal(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  if (!read_python(text, at, out)) return {};
  skip_space(text, at);
  return at == text.size() ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace bantam::inline v0::reply
