// Characters as Python's str has them: properties and case from utf8proc's tables.
#include "text/jinja/unicode.hpp"

#include <utf8proc.h>

namespace bantam::inline v0::jinja {

Character character_at(std::string_view text, std::size_t at) noexcept {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1};
  utf8proc_int32_t value = -1;
  // No character is longer than four bytes.
  const std::size_t left = text.size() - at < 4 ? text.size() - at : 4;
  const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                     static_cast<utf8proc_ssize_t>(left), &value);
  if (size <= 0) return {-1, 1};
  return {value, static_cast<std::size_t>(size)};
}

void append_utf8(std::string& out, std::int32_t value) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(value, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

std::size_t count_characters(std::string_view text) noexcept {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += character_at(text, at).size) ++count;
  return count;
}

std::size_t offset_of(std::string_view text, std::size_t index) noexcept {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += character_at(text, at).size;
  return at;
}

bool is_space(std::int32_t value) noexcept {
  // Python adds the four information separators and next line to the Unicode spaces.
  if (value < 0) return false;
  if (value < 0x80) return value == ' ' || (value >= 9 && value <= 13) || (value >= 0x1c && value <= 0x1f);
  if (value == 0x85) return true;
  const auto category = utf8proc_category(value);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool is_printable(std::int32_t value) noexcept {
  if (value == ' ') return true;
  if (value < 0) return false;
  switch (utf8proc_category(value)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

bool is_alpha(std::int32_t value) noexcept {
  if (value < 0) return false;
  const auto category = utf8proc_category(value);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(std::int32_t value) noexcept { return value >= 0 && utf8proc_category(value) == UTF8PROC_CATEGORY_ND; }

bool is_word(std::int32_t value) noexcept {
  if (value < 0) return false;
  if (value == '_') return true;
  const auto category = utf8proc_category(value);
  return is_alpha(value) || category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

bool is_upper(std::int32_t value) noexcept {
  if (value < 0) return false;
  const auto category = utf8proc_category(value);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT;
}

bool is_lower(std::int32_t value) noexcept { return value >= 0 && utf8proc_category(value) == UTF8PROC_CATEGORY_LL; }

namespace {

/// The characters whose upper case is several: Unicode's SpecialCasing table, the unconditional Latin part.
struct LongUpper {
  std::int32_t value;
  std::string_view upper, title;
};
constexpr LongUpper long_upper[] = {
    {0xdf, "SS", "Ss"},     {0x149, "\u02bcN", "\u02bcN"}, {0x1f0, "J\u030c", "J\u030c"}, {0xfb00, "FF", "Ff"},
    {0xfb01, "FI", "Fi"},   {0xfb02, "FL", "Fl"},          {0xfb03, "FFI", "Ffi"},        {0xfb04, "FFL", "Ffl"},
    {0xfb05, "ST", "St"},   {0xfb06, "ST", "St"},
};

void append_upper(std::string& out, std::int32_t value, bool as_title) {
  for (const auto& entry : long_upper) {
    if (entry.value == value) {
      out += as_title ? entry.title : entry.upper;
      return;
    }
  }
  append_utf8(out, as_title ? utf8proc_totitle(value) : utf8proc_toupper(value));
}

/// `after_letter`: whether the character before is a letter.
void append_lower(std::string& out, std::string_view text, std::size_t at, Character c, bool after_letter) {
  if (c.value == 0x130) {
    out += "i\u0307";
  } else if (c.value == 0x3a3) {
    // A sigma that ends a word has a form of its own.
    const std::size_t next = at + c.size;
    const bool after = next < text.size() && is_alpha(character_at(text, next).value);
    out += after_letter && !after ? "\u03c2" : "\u03c3";
  } else {
    append_utf8(out, utf8proc_tolower(c.value));
  }
}

/// Calls f(offset, character, whether a letter precedes) for every character; bytes that are no UTF-8 are copied to `out`.
template <class F>
void each(std::string_view text, std::string& out, F&& f) {
  out.reserve(text.size());
  bool after_letter = false;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if (c.value < 0) {
      out += text[at];
    } else {
      f(at, c, after_letter);
    }
    after_letter = is_alpha(c.value);
    at += c.size;
  }
}

}  // namespace

std::string to_upper(std::string_view text) {
  std::string out;
  each(text, out, [&](std::size_t, Character c, bool) { append_upper(out, c.value, false); });
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  each(text, out, [&](std::size_t at, Character c, bool after_letter) { append_lower(out, text, at, c, after_letter); });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  each(text, out, [&](std::size_t at, Character c, bool after_letter) {
    if (at == 0) {
      append_upper(out, c.value, true);
    } else {
      append_lower(out, text, at, c, after_letter);
    }
  });
  return out;
}

std::string title(std::string_view text) {
  std::string out;
  bool inside = false;
  each(text, out, [&](std::size_t at, Character c, bool after_letter) {
    if (inside) {
      append_lower(out, text, at, c, after_letter);
    } else {
      append_upper(out, c.value, true);
    }
    inside = is_upper(c.value) || is_lower(c.value);
  });
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  each(text, out, [&](std::size_t at, Character c, bool after_letter) {
    if (is_upper(c.value)) {
      append_lower(out, text, at, c, after_letter);
    } else if (is_lower(c.value)) {
      append_upper(out, c.value, false);
    } else {
      append_utf8(out, c.value);
    }
  });
  return out;
}

}  // namespace bantam::inline v0::jinja
