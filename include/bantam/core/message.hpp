// Builds one-line messages from values; gcc 12 has no <format>.
#pragma once

#include <charconv>
#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace bantam::inline v0 {

namespace detail {

inline void append(std::string& out, std::string_view text) { out += text; }
inline void append(std::string& out, char c) { out += c; }

// A template, so that a string literal does not decay into a truth value.
template <std::same_as<bool> T>
void append(std::string& out, T b) {
  out += b ? "true" : "false";
}

template <class T>
  requires(!std::same_as<T, bool> && (std::integral<T> || std::floating_point<T>))
void append(std::string& out, T value) {
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

}  // namespace detail

/// Concatenates texts, characters, numbers (shortest form) and truth values.
template <class... Args>
[[nodiscard]] std::string message(const Args&... args) {
  std::string out;
  (detail::append(out, args), ...);
  return out;
}

/// What stands in a range with commas between: "a, b, c"; of each element what message() takes, or what `text_of` makes of it.
template <class Range, class TextOf = std::identity>
[[nodiscard]] std::string with_commas(const Range& range, TextOf text_of = {}) {
  std::string out;
  bool first = true;
  for (const auto& element : range) {
    if (!std::exchange(first, false)) out += ", ";
    detail::append(out, std::invoke(text_of, element));
  }
  return out;
}

/// `text` made safe to print on one line: control bytes and invalid UTF-8 as \xNN, cut after `limit` bytes.
/// Names from files go through this before they reach a message.
[[nodiscard]] inline std::string printable(std::string_view text, std::size_t limit = 80) {
  constexpr char hex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
    }
  }
  if (text.size() > limit) out += "...";
  return out;
}

}  // namespace bantam::inline v0
