// Unicode properties and normal forms that tokenizers need, in linear time.
#include "text/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "bantam/core/error.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0::unicode {

namespace {

int combining_class(std::int32_t code) noexcept { return utf8proc_get_property(code)->combining_class; }

/// utf8proc's own canonical ordering exchanges neighbors, quadratic on a long run of marks: sort each run instead.
void order_marks(std::vector<std::int32_t>& codes) {
  for (std::size_t at = 0; at < codes.size();) {
    if (combining_class(codes[at]) == 0) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < codes.size() && combining_class(codes[end]) != 0) ++end;
    std::stable_sort(codes.begin() + static_cast<std::ptrdiff_t>(at), codes.begin() + static_cast<std::ptrdiff_t>(end),
                     [](std::int32_t a, std::int32_t b) { return combining_class(a) < combining_class(b); });
    at = end;
  }
}

void append_normalized(std::string& out, std::string_view text, Form form) {
  const bool compatible = form == Form::nfkc || form == Form::nfkd;
  const bool composed = form == Form::nfc || form == Form::nfkc;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE |
                                                      (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<std::int32_t> codes;
  codes.reserve(text.size());
  std::array<std::int32_t, 32> parts;  // U+FDFA has the longest decomposition, 18
  for (std::size_t at = 0; at < text.size();) {
    const utf8::Char c = utf8::decode(text, at);
    int boundary = 0;
    const auto n = utf8proc_decompose_char(static_cast<std::int32_t>(c.code), parts.data(),
                                           static_cast<utf8proc_ssize_t>(parts.size()), options, &boundary);
    if (n < 0 || static_cast<std::size_t>(n) > parts.size()) {
      codes.push_back(static_cast<std::int32_t>(c.code));
    } else {
      codes.insert(codes.end(), parts.begin(), parts.begin() + n);
    }
    at += c.length;
  }
  order_marks(codes);
  auto count = static_cast<utf8proc_ssize_t>(codes.size());
  if (composed) {
    count = utf8proc_normalize_utf32(codes.data(), count,
                                     static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) utf8::append(out, static_cast<std::uint32_t>(codes[static_cast<std::size_t>(i)]));
}

/// Calls valid(part) and invalid(byte) over the text, in order.
template <class Valid, class Invalid>
void over_valid_parts(std::string_view text, Valid valid, Invalid invalid) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t n = utf8::valid_prefix(text, at);
    if (n > 0) valid(text.substr(at, n));
    at += n;
    if (at < text.size()) invalid(text[at++]);
  }
}

}  // namespace

std::string normalized(std::string_view text, Form form) {
  // ASCII is in every normal form.
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return std::string(text);
  std::string out;
  out.reserve(text.size());
  over_valid_parts(
      text, [&](std::string_view part) { append_normalized(out, part, form); }, [&](char byte) { out += byte; });
  return out;
}

std::string lowered(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto lower = [&](std::string_view part) {
    for (std::size_t at = 0; at < part.size();) {
      const utf8::Char c = utf8::decode(part, at);
      utf8::append(out, static_cast<std::uint32_t>(utf8proc_tolower(static_cast<std::int32_t>(c.code))));
      at += c.length;
    }
  };
  over_valid_parts(text, lower, [&](char byte) { out += byte; });
  return out;
}

bool is_space(std::uint32_t code) noexcept {
  if (code == ' ' || (code >= 0x09 && code <= 0x0d)) return true;
  if (code < 0x80) return false;
  if (code == 0x85) return true;
  const auto category = utf8proc_category(static_cast<std::int32_t>(code));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool is_word(std::uint32_t code) noexcept {
  switch (utf8proc_category(static_cast<std::int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

}  // namespace bantam::inline v0::unicode
