// Walks JSON fast: a string is passed eight bytes at a time and copied only where it has escapes.
#pragma once

#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

#include "core/utf8_eight.hpp"

namespace bantam::inline v0::detail {

/// Tells a receiver what a text holds. What it returns false for is broken, refused by the receiver, or odd (a byte order mark, numbers
/// that fit no double): the library reads that, and says what is wrong with it. What it reads, it reads as the library does. The receiver
/// may read a member's value itself: then it returns what follows it.
template <class Receiver>
class JsonScanner {
 public:
  JsonScanner(std::string_view text, Receiver& receiver) : at_(text.data()), end_(text.data() + text.size()), receiver_(receiver) {}

  /// The value that comes next.
  [[nodiscard]] bool value() {
    skip_spaces();
    if (at_ == end_) return false;
    switch (*at_) {
      case '"': return text() && receiver_.add_text(text_);
      case '[': return array();
      case '{': return object();
      case 't': return word("true") && receiver_.boolean(true);
      case 'f': return word("false") && receiver_.boolean(false);
      case 'n': return word("null") && receiver_.null();
      default: return number();
    }
  }
  /// Whether nothing but spaces follows.
  [[nodiscard]] bool at_end() {
    skip_spaces();
    return at_ == end_;
  }
  [[nodiscard]] const char* at() const noexcept { return at_; }

 private:
  [[nodiscard]] std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }
  static bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
  static std::size_t first_of(std::uint64_t marks) noexcept { return static_cast<std::size_t>(std::countr_zero(marks)) / 8; }

  void skip_spaces() {
    for (; at_ != end_ && *at_ <= ' '; ++at_) {
      // Behind the end of a line pretty-printed texts have many.
      while (*at_ == ' ' && left() > 8) {
        const std::uint64_t others = eight_bytes(at_) ^ each_byte * ' ';
        at_ += others == 0 ? 8 : first_of(others);
      }
      if (*at_ != ' ' && *at_ != '\n' && *at_ != '\t' && *at_ != '\r') return;
    }
  }
  bool next_is(char c) {
    skip_spaces();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view expected) {
    if (!std::string_view(at_, left()).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }

  bool array() {
    ++at_;
    if (!receiver_.open()) return false;
    if (!next_is(']')) {
      do {
        if (!value()) return false;
      } while (next_is(','));
      if (!next_is(']')) return false;
    }
    return receiver_.end_array();
  }
  bool object() {
    ++at_;
    if (!receiver_.open()) return false;
    if (!next_is('}')) {
      do {
        if (!next_is('"')) return false;
        --at_;
        if (!text() || !receiver_.add_key(text_) || !next_is(':')) return false;
        skip_spaces();
        if (const char* end = receiver_.read_elsewhere(text_, std::string_view(at_, left()))) {
          at_ = end;
        } else if (!value()) {
          return false;
        }
      } while (next_is(','));
      if (!next_is('}')) return false;
    }
    return receiver_.end_object();
  }

  /// From quote to quote.
  bool text() {
    const char* begin = ++at_;
    if (!pass_plain()) return false;
    if (*at_ == '\\') {
      unescaped_.assign(begin, at_);
      while (*at_ == '\\') {
        if (!unescape()) return false;
        begin = at_;
        if (!pass_plain()) return false;
        unescaped_.append(begin, at_);
      }
      text_ = unescaped_;
    } else {
      text_ = std::string_view(begin, static_cast<std::size_t>(at_ - begin));
    }
    ++at_;
    return true;
  }
  /// Passes what stands for itself, up to a quote or a backslash.
  bool pass_plain() {
    while (at_ != end_) {
      if (left() >= 8) {
        // The lowest mark is right: a borrow makes wrong ones only above it.
        const std::uint64_t bytes = eight_bytes(at_), quotes = bytes ^ each_byte * '"', backslashes = bytes ^ each_byte * '\\';
        const std::uint64_t low = ((bytes - each_byte * ' ') | ((quotes - each_byte) & ~quotes) | ((backslashes - each_byte) & ~backslashes)) & ~bytes;
        const std::uint64_t marks = low & each_byte * 0x80;
        const std::size_t plain = marks == 0 ? 8 : first_of(marks);
        if (plain > 0) {
          // What follows the mark is not looked at yet.
          const std::size_t whole = whole_characters(bytes & ~std::uint64_t{0} >> (64 - 8 * plain));
          if (plain == 8 && whole > 0) {
            at_ += whole;
            continue;
          }
          if (whole > 0) at_ += plain;
        }
      }
      if (*at_ == '"' || *at_ == '\\') return true;
      const auto byte = static_cast<unsigned char>(*at_);
      if (byte < ' ') return false;
      if (byte < 0x80) {
        ++at_;
      } else if (!pass_wide()) {
        return false;
      }
    }
    return false;
  }
  /// Passes a character beyond ASCII (Unicode 15, table 3-7).
  bool pass_wide() {
    const auto byte = [this](std::size_t i) { return i < left() ? static_cast<unsigned char>(at_[i]) : 0u; };
    const auto goes_on = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
    const unsigned first = byte(0), second = byte(1);
    std::size_t length = 2;
    bool good = first >= 0xc2 && goes_on(1);
    if (first >= 0xf0) {
      length = 4;
      good = first <= 0xf4 && goes_on(1) && goes_on(2) && goes_on(3) && (first > 0xf0 || second >= 0x90) && (first < 0xf4 || second < 0x90);
    } else if (first >= 0xe0) {
      length = 3;
      good = goes_on(1) && goes_on(2) && (first > 0xe0 || second >= 0xa0) && (first != 0xed || second < 0xa0);
    }
    if (good) at_ += length;
    return good;
  }

  bool unescape() {
    if (left() < 2) return false;
    constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    if (const std::size_t letter = letters.find(at_[1]); letter != letters.npos) {
      unescaped_ += meanings[letter];
      at_ += 2;
      return true;
    }
    std::uint32_t code = 0, low = 0;
    if (!read_unit(code)) return false;
    if (code >= 0xd800 && code < 0xe000) {
      if (code >= 0xdc00 || !read_unit(low) || low < 0xdc00 || low >= 0xe000) return false;
      code = 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff));
    }
    append(code);
    return true;
  }
  /// \uNNNN
  bool read_unit(std::uint32_t& unit) {
    if (left() < 6 || at_[0] != '\\' || at_[1] != 'u') return false;
    if (std::from_chars(at_ + 2, at_ + 6, unit, 16).ptr != at_ + 6) return false;
    at_ += 6;
    return true;
  }
  void append(std::uint32_t code) {
    const auto put = [this](std::uint32_t byte) { unescaped_ += static_cast<char>(static_cast<unsigned char>(byte)); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
      put(0xc0 | code >> 6);
    } else {
      if (code < 0x10000) {
        put(0xe0 | code >> 12);
      } else {
        put(0xf0 | code >> 18);
        put(0x80 | (code >> 12 & 0x3f));
      }
      put(0x80 | (code >> 6 & 0x3f));
    }
    put(0x80 | (code & 0x3f));
  }

  bool pass_digits() {
    const char* begin = at_;
    while (at_ != end_ && is_digit(*at_)) ++at_;
    return at_ != begin;
  }
  bool number() {
    const char* begin = at_;
    const bool negative = *at_ == '-';
    if (negative) ++at_;
    if (at_ != end_ && *at_ == '0') {
      ++at_;
    } else if (!pass_digits()) {
      return false;
    }
    const auto here_is = [this](char a, char b) { return at_ != end_ && (*at_ == a || *at_ == b); };
    if (!here_is('.', '.') && !here_is('e', 'E')) {
      std::int64_t below_zero = 0;
      std::uint64_t whole = 0;
      if (negative ? reads(begin, below_zero) : reads(begin, whole)) {
        return negative ? receiver_.number_integer(below_zero) : receiver_.number_unsigned(whole);
      }
    }
    if (here_is('.', '.')) {
      ++at_;
      if (!pass_digits()) return false;
    }
    if (here_is('e', 'E')) {
      ++at_;
      if (here_is('+', '-')) ++at_;
      if (!pass_digits()) return false;
    }
    double real = 0;
    return reads(begin, real) && receiver_.add_real(real);
  }
  template <class T>
  bool reads(const char* begin, T& number) const noexcept {
    return std::from_chars(begin, at_, number).ec == std::errc();
  }

  const char* at_;
  const char* end_;
  Receiver& receiver_;
  std::string_view text_;  ///< what text() has read
  std::string unescaped_;
};

}  // namespace bantam::inline v0::detail
