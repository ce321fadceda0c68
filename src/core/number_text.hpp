// Numbers as people read them.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

/// `value` with `digits` after the point.
[[nodiscard]] inline std::string fixed(double value, int digits) {
  char text[400];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, digits);
  return error == std::errc{} ? std::string(text, end) : std::string("?");
}

/// "12.3 MB" and the like, decimal.
[[nodiscard]] inline std::string in_bytes(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1000) return message(bytes, " B");
  if (value < 1e6) return fixed(value / 1e3, 1) + " kB";
  if (value < 1e9) return fixed(value / 1e6, 1) + " MB";
  return fixed(value / 1e9, 2) + " GB";
}

/// All of `text` as a number in decimal; none where it is anything else, or no number.
template <class T>
[[nodiscard]] std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return {};
  }
  return value;
}

/// The same for a whole number between bounds, both allowed. Throws invalid_argument, naming `what`, for anything else.
[[nodiscard]] inline std::int64_t whole_number(std::string_view what, std::string_view text, std::int64_t least, std::int64_t most) {
  const std::optional<std::int64_t> value = number_in<std::int64_t>(text);
  if (value && *value >= least && *value <= most) return *value;
  const bool bounded = most != std::numeric_limits<std::int64_t>::max();
  const std::string wanted = bounded ? message("from ", least, " to ", most) : message("of at least ", least);
  fail(Errc::invalid_argument, what, ": expected a whole number ", wanted, ", found ", printable(text));
}

}  // namespace bantam::inline v0
