// Times of day as JSON has them.
#pragma once

#include <chrono>
#include <ctime>
#include <string>

namespace bantam::server {

/// "2026-01-31T12:00:00.123Z" (RFC 3339)
[[nodiscard]] inline std::string time_text(std::chrono::system_clock::time_point time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  const std::string digits = std::to_string(1000 + ms % 1000).substr(1);
  return std::string(text, length) + '.' + digits + 'Z';
}

}  // namespace bantam::server
