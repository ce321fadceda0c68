// UTF-8 as bytes: checking, stepping, repairing, and the byte alphabet of GPT-2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bantam::inline v0::utf8 {

/// Code points are below this.
inline constexpr std::size_t codes = 0x110000;

/// One character of a text: its code point and its length in bytes. An invalid byte has length 1 and no code point.
struct Char {
  std::uint32_t code = 0;
  std::uint8_t length = 1;
  bool valid = false;
};

namespace detail {
[[nodiscard]] Char decode_rare(std::string_view text, std::size_t at) noexcept;
}
/// The character at `text[at]`, at < text.size(). Overlong forms, surrogates and values above U+10FFFF are invalid.
[[nodiscard]] inline Char decode(std::string_view text, std::size_t at) noexcept {
  const auto first = static_cast<std::uint8_t>(text[at]);
  if (first < 0x80) return {first, 1, true};
  // The rule first: what is left are four bytes, and second bytes that overlong forms and surrogates forbid.
  const auto next = [&](std::size_t i) { return at + i < text.size() ? static_cast<std::uint32_t>(static_cast<std::uint8_t>(text[at + i])) ^ 0x80 : 0xff; };
  if (first >= 0xc2 && first < 0xe0 && next(1) < 0x40) return {(first & 0x1fu) << 6 | next(1), 2, true};
  if (first > 0xe0 && first < 0xf0 && first != 0xed && next(1) < 0x40 && next(2) < 0x40) {
    return {(first & 0xfu) << 12 | next(1) << 6 | next(2), 3, true};
  }
  return detail::decode_rare(text, at);
}

/// The last character of a valid text that is not empty.
[[nodiscard]] Char last(std::string_view text) noexcept;

/// Appends a code point that is neither a surrogate nor above U+10FFFF.
void append(std::string& out, std::uint32_t code);

/// The length of the longest valid beginning of text[from..].
[[nodiscard]] std::size_t valid_prefix(std::string_view text, std::size_t from = 0) noexcept;
[[nodiscard]] inline bool is_valid(std::string_view text) noexcept { return valid_prefix(text) == text.size(); }

/// How many bytes at the end of `text` begin a character that more bytes could complete (0 to 3).
[[nodiscard]] std::size_t unfinished_tail(std::string_view text) noexcept;

/// `text` with each maximal invalid part replaced by U+FFFD (Unicode 15, section 3.9, "substitution of maximal subparts").
[[nodiscard]] std::string repaired(std::string_view text);

/// How byte-level vocabularies spell a byte: printable Latin-1 as itself, the others from U+0100 on, in order.
[[nodiscard]] std::string_view byte_spelling(std::uint8_t byte) noexcept;
/// Appends the bytes that a byte-level piece spells; the piece itself if it has a character outside the alphabet.
void append_bytes_of_spelling(std::string& out, std::string_view piece);
/// `bytes` in the byte alphabet.
[[nodiscard]] std::string spelled(std::string_view bytes);

}  // namespace bantam::inline v0::utf8
