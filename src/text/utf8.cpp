// UTF-8 as bytes: checking, stepping, repairing, and the byte alphabet of GPT-2.
#include "text/utf8.hpp"

#include <algorithm>
#include <array>

#include "core/utf8_eight.hpp"

namespace bantam::inline v0::utf8 {

namespace {

/// What may follow a lead byte: how many bytes in all, and the range of the second one (Unicode 15, table 3-7).
struct Lead {
  std::uint8_t length, second_low, second_high;
};

constexpr Lead lead_of(std::uint8_t b) noexcept {
  if (b < 0x80) return {1, 0, 0};
  if (b < 0xc2) return {0, 0, 0};
  if (b < 0xe0) return {2, 0x80, 0xbf};
  if (b == 0xe0) return {3, 0xa0, 0xbf};
  if (b == 0xed) return {3, 0x80, 0x9f};
  if (b < 0xf0) return {3, 0x80, 0xbf};
  if (b == 0xf0) return {4, 0x90, 0xbf};
  if (b < 0xf4) return {4, 0x80, 0xbf};
  if (b == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

/// How many bytes from `at` on are a character or the beginning of one; `whole` tells which. At least 1.
std::size_t subpart(std::string_view text, std::size_t at, bool& whole) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const Lead lead = lead_of(byte(at));
  whole = lead.length == 1;
  if (lead.length < 2) return 1;
  std::size_t n = 1;
  while (n < lead.length && at + n < text.size()) {
    const std::uint8_t low = n == 1 ? lead.second_low : std::uint8_t{0x80};
    const std::uint8_t high = n == 1 ? lead.second_high : std::uint8_t{0xbf};
    if (byte(at + n) < low || byte(at + n) > high) return n;
    ++n;
  }
  whole = n == lead.length;
  return n;
}

struct Alphabet {
  std::array<std::array<char, 2>, 256> spelling{};
  std::array<std::uint8_t, 256> length{};
  std::array<std::int16_t, 0x200> byte_of{};  // 188 printable bytes stay below U+0100, 68 others follow: U+0143 is the last

  constexpr Alphabet() {
    byte_of.fill(-1);
    std::uint32_t next = 0x100;
    for (std::uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
      const std::uint32_t code = printable ? b : next++;
      byte_of[code] = static_cast<std::int16_t>(b);
      length[b] = code < 0x80 ? 1 : 2;
      if (code < 0x80) {
        spelling[b] = {static_cast<char>(code)};
      } else {
        spelling[b] = {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
      }
    }
  }
};

/// Made by the compiler: decoding asks for it character by character.
constexpr Alphabet alphabet;

}  // namespace

Char detail::decode_rare(std::string_view text, std::size_t at) noexcept {
  bool whole = false;
  const std::size_t n = subpart(text, at, whole);
  if (!whole) return {0, 1, false};
  const auto first = static_cast<std::uint8_t>(text[at]);
  std::uint32_t code = first & (0x7fu >> n);
  for (std::size_t i = 1; i < n; ++i) code = code << 6 | (static_cast<std::uint8_t>(text[at + i]) & 0x3f);
  return {code, static_cast<std::uint8_t>(n), true};
}

void append(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(static_cast<std::uint8_t>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

Char last(std::string_view text) noexcept {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<std::uint8_t>(text[at]) & 0xc0) == 0x80) --at;
  return decode(text, at);
}

std::size_t valid_prefix(std::string_view text, std::size_t from) noexcept {
  std::size_t at = from;
  while (at < text.size()) {
    if (text.size() - at >= 8) {
      if (const std::size_t whole = bantam::detail::whole_characters(bantam::detail::eight_bytes(text.data() + at)); whole != 0) {
        at += whole;
        continue;
      }
    }
    const Char c = decode(text, at);
    if (!c.valid) break;
    at += c.length;
  }
  return at - from;
}

std::size_t unfinished_tail(std::string_view text) noexcept {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const std::size_t at = text.size() - back;
    const auto byte = static_cast<std::uint8_t>(text[at]);
    if (byte < 0x80) return 0;
    if (byte < 0xc0) continue;
    bool whole = false;
    return subpart(text, at, whole) == back && !whole && lead_of(byte).length > back ? back : 0;
  }
  return 0;
}

std::string repaired(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t good = valid_prefix(text, at);
    out += text.substr(at, good);
    at += good;
    if (at == text.size()) break;
    bool whole = false;
    at += subpart(text, at, whole);
    out += "\xef\xbf\xbd";
  }
  return out;
}

std::string_view byte_spelling(std::uint8_t byte) noexcept {
  return {alphabet.spelling[byte].data(), alphabet.length[byte]};
}

void append_bytes_of_spelling(std::string& out, std::string_view piece) {
  const std::size_t before = out.size();
  out.resize(before + piece.size());
  char* end = out.data() + before;
  bool known = true;
  // No branch in a character: which of them are ASCII is as good as random. The alphabet's last one begins with 0xc5.
  for (std::size_t at = 0; at < piece.size();) {
    const std::uint32_t first = static_cast<std::uint8_t>(piece[at]), second = static_cast<std::uint8_t>(piece[std::min(at + 1, piece.size() - 1)]);
    const std::uint32_t two = first >> 7, mask = 0 - two;
    known &= (two == 0) | ((first - 0xc2 < 4) & ((second & 0xc0) == 0x80));
    const std::int16_t byte = alphabet.byte_of[(mask & ((first & 7) << 6 | (second & 0x3f))) | (~mask & first)];
    known &= byte >= 0;
    *end++ = static_cast<char>(static_cast<std::uint8_t>(byte));
    at += 1 + two;
  }
  out.resize(static_cast<std::size_t>(end - out.data()));
  if (!known) out.replace(before, out.npos, piece);
}

std::string spelled(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += byte_spelling(static_cast<std::uint8_t>(c));
  return out;
}

}  // namespace bantam::inline v0::utf8
