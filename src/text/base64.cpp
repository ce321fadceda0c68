// Base64 as files write it.
#include "text/base64.hpp"

#include <array>
#include <cstdint>

namespace bantam::inline v0 {

namespace {

constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> values = [] {
  std::array<std::int8_t, 256> out{};
  for (auto& value : out) value = -1;
  for (std::size_t i = 0; i < digits.size(); ++i) out[static_cast<unsigned char>(digits[i])] = static_cast<std::int8_t>(i);
  return out;
}();

}  // namespace

std::optional<std::string> bytes_of_base64(std::string_view text) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xff);
    }
  }
  return out;
}

std::string base64_of(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) bits = bits << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i) out += at + i <= bytes.size() ? digits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

}  // namespace bantam::inline v0
