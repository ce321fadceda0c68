// Numbers as people read them.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

#include "bantam/core/message.hpp"

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

}  // namespace bantam::inline v0
