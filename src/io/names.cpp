// Checks of names found in files.
#include "io/names.hpp"

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

void check_name(std::string_view name, std::string_view place) {
  if (name.empty()) fail(Errc::corrupt, place, ": expected a name, found an empty one");
  if (name.find('\0') != name.npos) fail(Errc::corrupt, place, " '", printable(name), "': expected text, found a zero byte");
  if (!is_utf8(name)) fail(Errc::corrupt, place, " '", printable(name), "': expected utf-8, found other bytes");
}

}  // namespace bantam::inline v0::detail
