// Checks of names found in files.
#include "io/names.hpp"

#include <algorithm>

namespace bantam::inline v0::detail {

namespace {

// How many bytes the well-formed sequence at the front has; 0 if it is ill-formed (Unicode 15, table 3-7).
std::size_t sequence_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  // The first continuation byte has a narrower range after these leads: overlong forms, surrogates, the end of Unicode.
  const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string_view name_fault(std::string_view name) noexcept {
  if (name.empty()) return "an empty one";
  if (name.find('\0') != name.npos) return "a zero byte";
  if (!is_utf8(name)) return "bytes that are no utf-8";
  return {};
}

std::string_view tensor_name_fault(std::string_view name) noexcept {
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") return "a path that climbs";
    begin = end + 1;
  }
  return name_fault(name);
}

}  // namespace bantam::inline v0::detail
