// SentencePiece's precompiled character map.
#include "text/charsmap.hpp"

#include <cstring>

#include "bantam/core/error.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

namespace {

// A unit of the double array (darts-clone): bits 0 to 7 and 31 the label, 8 that a value follows, 10 to 30 the offset, which
// bit 9 says to be in steps of 256. The unit of a value has bit 31 set and the value below it.
constexpr std::uint32_t label_of(std::uint32_t unit) noexcept { return unit & 0x800000ffu; }
constexpr std::uint32_t offset_of(std::uint32_t unit) noexcept { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
constexpr bool has_value(std::uint32_t unit) noexcept { return (unit >> 8 & 1) != 0; }
constexpr std::uint32_t value_of(std::uint32_t unit) noexcept { return unit & 0x7fffffffu; }

/// Longer graphemes are looked at character by character (spm_precompiled, the crate that tokenizers uses).
constexpr std::size_t longest_grapheme = 5;

/// Of one text in the map; Unicode's longest (U+FDFA) has 33 bytes. Few bytes must not become many.
constexpr std::size_t longest_content = 256;

std::uint32_t word_at(std::string_view bytes, std::size_t at) noexcept {
  std::uint32_t word = 0;
  for (std::size_t i = 4; i-- > 0;) word = word << 8 | static_cast<unsigned char>(bytes[at + i]);
  return word;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes, std::string_view place) {
  const std::size_t array = bytes.size() < 4 ? 0 : word_at(bytes, 0);
  if (bytes.size() < 4 || array % 4 != 0 || array > bytes.size() - 4) {
    fail(Errc::corrupt, place, ": a character map of ", bytes.size(), " bytes whose array has ", array);
  }
  units_.reserve(array / 4);
  for (std::size_t at = 0; at < array; at += 4) units_.push_back(word_at(bytes, 4 + at));
  contents_ = std::string(bytes.substr(4 + array));
  if (!utf8::is_valid(contents_)) fail(Errc::corrupt, place, ": a character map with texts that are not UTF-8");
  for (std::size_t at = 0; at < contents_.size();) {
    const std::size_t length = ::strnlen(contents_.data() + at, contents_.size() - at);
    if (length > longest_content) fail(Errc::corrupt, place, ": a character map with a text of ", length, " bytes, at most ", longest_content);
    at += length + 1;
  }
  if (units_.empty()) return;
  for (std::uint32_t byte = 1; byte < 256; ++byte) {
    const std::uint32_t at = offset_of(units_[0]) ^ byte;
    begins_[byte] = at < units_.size() && label_of(units_[at]) == byte;
  }
}

/// Calls found(length, value) for each prefix of the text, shortest first, until it returns false.
template <class Found>
void Charsmap::search(std::string_view text, Found found) const {
  if (units_.empty()) return;
  std::uint32_t at = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint32_t byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    // A zero ends the texts of the array, so that none holds one.
    if (byte == 0 || at >= units_.size() || label_of(units_[at]) != byte) return;
    const std::uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (at >= units_.size()) return;
    if (has_value(unit) && !found(i + 1, value_of(units_[at]))) return;
  }
}

std::string_view Charsmap::content_at(std::uint32_t at) const noexcept {
  if (at >= contents_.size()) return {};
  const char* begin = contents_.data() + at;
  return {begin, ::strnlen(begin, contents_.size() - at)};
}

Charsmap::Hit Charsmap::longest(std::string_view text) const noexcept {
  Hit hit;
  search(text, [&](std::size_t length, std::uint32_t value) {
    hit = {length, content_at(value)};
    return true;
  });
  return hit;
}

Charsmap::Hit Charsmap::shortest(std::string_view text) const noexcept {
  Hit hit;
  search(text, [&](std::size_t length, std::uint32_t value) {
    hit = {length, content_at(value)};
    return false;
  });
  return hit;
}

std::string Charsmap::apply(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const Hit hit = begins_[byte] ? longest(text.substr(at)) : Hit{};
    if (hit.length > 0) {
      out += hit.content;
      at += hit.length;
    } else {
      const std::size_t length = byte < 0x80 ? 1 : utf8::decode(text, at).length;
      out.append(text, at, length);
      at += length;
    }
  }
  return out;
}

std::string Charsmap::apply_to_graphemes(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  unicode::over_graphemes(text, [&](std::string_view grapheme) {
    if (grapheme.size() == 1 && !begins_[static_cast<unsigned char>(grapheme[0])]) {
      out += grapheme;
      return;
    }
    if (grapheme.size() <= longest_grapheme) {
      if (const Hit hit = shortest(grapheme); hit.length > 0) {
        out += hit.content;
        return;
      }
    }
    for (std::size_t at = 0; at < grapheme.size();) {
      const std::string_view character = grapheme.substr(at, utf8::decode(grapheme, at).length);
      const Hit hit = shortest(character);
      out += hit.length > 0 ? hit.content : character;
      at += character.size();
    }
  });
  return out;
}

}  // namespace bantam::inline v0
