// JSON byte by byte: whether what came so far may become a value, and where one is in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bantam::inline v0::reply {

/// What nests deeper is no call: two levels less than Json reads, for the objects around values.
inline constexpr std::size_t deepest_value = 62;

/// Follows one JSON value. Control characters in texts are let through: models write line ends as they are.
class JsonScanner {
 public:
  /// done: the value is whole with this byte (objects, arrays and texts; numbers and words end with what follows them).
  enum class Result : std::uint8_t { more, done, wrong };

  Result push(char c);
  /// Whether the value is whole, now that nothing follows.
  [[nodiscard]] bool finish();

  /// How many objects and arrays are open.
  [[nodiscard]] std::size_t depth() const noexcept { return open_.size(); }
  /// Inside the quotes of a text, and whether it is the name of a member.
  [[nodiscard]] bool in_text() const noexcept { return state_ >= State::text; }
  [[nodiscard]] bool in_key() const noexcept { return in_text() && key_; }
  /// The next byte that is no white space begins a value.
  [[nodiscard]] bool before_value() const noexcept { return state_ == State::value || state_ == State::first_item; }
  [[nodiscard]] bool after_value() const noexcept { return state_ == State::after; }

 private:
  enum class State : std::uint8_t {
    value, first_item, first_key, key, colon, after, word,
    number_sign, number_zero, number_whole, number_point, number_fraction, number_e, number_e_sign, number_exponent,
    text, escape, unicode, bytes,
  };
  Result begin_value(char c);
  Result end_value();
  Result push_number(char c);
  Result push_text(char c);
  Result push_unicode(char c);
  Result push_lead(unsigned char c);

  State state_ = State::value;
  std::string open_;        ///< '{' and '['
  bool key_ = false;        ///< of the text that is open
  std::string_view word_;   ///< what is left of true, false, null
  int digits_ = 0;          ///< of \uXXXX, still to come
  std::uint32_t unit_ = 0;  ///< their value
  bool low_expected_ = false;  ///< a high surrogate came
  int continuation_ = 0;       ///< bytes of a character, still to come
  unsigned char low_ = 0x80, high_ = 0xbf;  ///< what the next of them may be
};

/// Whether a text is one JSON value, white space around it aside.
[[nodiscard]] bool is_json(std::string_view text);

/// The bytes inside of quotes, with control characters escaped: what makes a let-through text strict JSON.
void append_strict(std::string& out, char c, bool in_text);

}  // namespace bantam::inline v0::reply
