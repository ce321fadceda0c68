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
      // The one letter whose lower case has two characters: I with a dot (SpecialCasing.txt).
      if (c.code == 0x130) utf8::append(out, 0x307);
      at += c.length;
    }
  };
  over_valid_parts(text, lower, [&](char byte) { out += byte; });
  return out;
}

namespace {

/// Appends what change(out, code) makes of each character; `invalid` says whether invalid bytes stay.
template <class Change>
std::string changed(std::string_view text, bool invalid, Change change) {
  std::string out;
  out.reserve(text.size());
  const auto valid = [&](std::string_view part) {
    for (std::size_t at = 0; at < part.size();) {
      const utf8::Char c = utf8::decode(part, at);
      change(out, c.code);
      at += c.length;
    }
  };
  over_valid_parts(text, valid, [&](char byte) {
    if (invalid) out += byte;
  });
  return out;
}

bool is_ideograph(std::uint32_t code) noexcept {
  // As in the original BERT; U+2B920 for U+2B820 is what Hugging Face's tokenizers has.
  constexpr std::array<std::array<std::uint32_t, 2>, 8> blocks = {{{0x4e00, 0x9fff},
                                                                   {0x3400, 0x4dbf},
                                                                   {0x20000, 0x2a6df},
                                                                   {0x2a700, 0x2b73f},
                                                                   {0x2b740, 0x2b81f},
                                                                   {0x2b920, 0x2ceaf},
                                                                   {0xf900, 0xfaff},
                                                                   {0x2f800, 0x2fa1f}}};
  return std::ranges::any_of(blocks, [&](const auto& block) { return code >= block[0] && code <= block[1]; });
}

}  // namespace

std::string without_marks(std::string_view text, Marks marks) {
  return changed(text, true, [&](std::string& out, std::uint32_t code) {
    const auto category = code < 0x80 ? UTF8PROC_CATEGORY_CN : utf8proc_category(static_cast<std::int32_t>(code));
    const bool spacing = category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
    if (category != UTF8PROC_CATEGORY_MN && !(spacing && marks == Marks::all)) utf8::append(out, code);
  });
}

std::string cleaned(std::string_view text) {
  return changed(text, false, [](std::string& out, std::uint32_t code) {
    if (code >= 0x20 && code < 0x7f) {
      out += static_cast<char>(code);
      return;
    }
    if (code == '\t' || code == '\n' || code == '\r') {
      out += ' ';
      return;
    }
    const auto category = utf8proc_category(static_cast<std::int32_t>(code));
    const bool control = category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
    if (control || code == 0xfffd) return;
    utf8::append(out, is_space(code) ? ' ' : code);
  });
}

std::string with_spaced_ideographs(std::string_view text) {
  return changed(text, true, [](std::string& out, std::uint32_t code) {
    const bool spaced = code >= 0x3400 && is_ideograph(code);
    if (spaced) out += ' ';
    utf8::append(out, code);
    if (spaced) out += ' ';
  });
}

std::string nmt_cleaned(std::string_view text) {
  return changed(text, true, [](std::string& out, std::uint32_t code) {
    const bool gone = (code >= 0x01 && code <= 0x08) || code == 0x0b || (code >= 0x0e && code <= 0x1f) || code == 0x7f || code == 0x8f ||
                      code == 0x9f;
    if (gone) return;
    const bool space = code == 0x09 || code == 0x0a || code == 0x0c || code == 0x0d || code == 0x1680 || (code >= 0x200b && code <= 0x200f) ||
                       code == 0x2028 || code == 0x2029 || code == 0x2581 || code == 0xfeff || code == 0xfffd;
    utf8::append(out, space ? ' ' : code);
  });
}

void over_graphemes(std::string_view text, const std::function<void(std::string_view)>& take) {
  const auto valid = [&](std::string_view part) {
    std::size_t begin = 0;
    std::int32_t before = -1;
    std::int32_t state = 0;
    for (std::size_t at = 0; at < part.size();) {
      const utf8::Char c = utf8::decode(part, at);
      const auto code = static_cast<std::int32_t>(c.code);
      // Of ASCII only CR LF stays together.
      const bool ascii = before >= 0 && before < 0x80 && code < 0x80;
      const bool cut = before >= 0 && (ascii ? !(before == '\r' && code == '\n') : utf8proc_grapheme_break_stateful(before, code, &state));
      if (ascii) state = 0;
      if (cut) {
        take(part.substr(begin, at - begin));
        begin = at;
      }
      before = code;
      at += c.length;
    }
    if (begin < part.size()) take(part.substr(begin));
  };
  over_valid_parts(text, valid, [&](char byte) { take(std::string_view(&byte, 1)); });
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
