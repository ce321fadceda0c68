// JSON byte by byte, by the grammar of RFC 8259.
#include "text/reply/json_scanner.hpp"

#include "io/json.hpp"

namespace bantam::inline v0::reply {

namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

JsonScanner::Result JsonScanner::end_value() {
  state_ = State::after;
  return open_.empty() ? Result::done : Result::more;
}

JsonScanner::Result JsonScanner::begin_value(char c) {
  if (is_space(c)) return Result::more;
  if (c == ']' && state_ == State::first_item) {
    open_.pop_back();
    return end_value();
  }
  if (c == '{' || c == '[') {
    static_assert(deepest_value + 2 <= Json::deepest);
    if (open_.size() == deepest_value) return Result::wrong;
    open_ += c;
    state_ = c == '{' ? State::first_key : State::first_item;
    return Result::more;
  }
  if (c == '"') {
    key_ = false;
    state_ = State::text;
    return Result::more;
  }
  if (c == '-') {
    state_ = State::number_sign;
    return Result::more;
  }
  if (is_digit(c)) {
    state_ = c == '0' ? State::number_zero : State::number_whole;
    return Result::more;
  }
  word_ = c == 't' ? "rue" : c == 'f' ? "alse" : c == 'n' ? "ull" : "";
  state_ = State::word;
  return word_.empty() ? Result::wrong : Result::more;
}

JsonScanner::Result JsonScanner::push_number(char c) {
  const auto go = [&](State state) {
    state_ = state;
    return Result::more;
  };
  const bool digit = is_digit(c), e = c == 'e' || c == 'E';
  switch (state_) {
    case State::number_sign: return !digit ? Result::wrong : go(c == '0' ? State::number_zero : State::number_whole);
    case State::number_whole:
      if (digit) return Result::more;
      [[fallthrough]];
    case State::number_zero:
      if (c == '.') return go(State::number_point);
      if (e) return go(State::number_e);
      break;
    case State::number_point: return digit ? go(State::number_fraction) : Result::wrong;
    case State::number_fraction:
      if (digit) return Result::more;
      if (e) return go(State::number_e);
      break;
    case State::number_e:
      if (c == '+' || c == '-') return go(State::number_e_sign);
      [[fallthrough]];
    case State::number_e_sign: return digit ? go(State::number_exponent) : Result::wrong;
    case State::number_exponent:
      if (digit) return Result::more;
      break;
    default: return Result::wrong;
  }
  // The number is over, and c stands behind it.
  state_ = State::after;
  return open_.empty() ? Result::wrong : push(c);
}

JsonScanner::Result JsonScanner::push_lead(unsigned char c) {
  // Table 3-7 of Unicode: which bytes may follow which.
  low_ = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
  high_ = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
  continuation_ = c >= 0xc2 && c <= 0xdf ? 1 : c >= 0xe0 && c <= 0xef ? 2 : c >= 0xf0 && c <= 0xf4 ? 3 : 0;
  state_ = State::bytes;
  return continuation_ == 0 ? Result::wrong : Result::more;
}

JsonScanner::Result JsonScanner::push_unicode(char c) {
  const int digit = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  if (digit < 0) return Result::wrong;
  unit_ = unit_ << 4 | static_cast<std::uint32_t>(digit);
  if (--digits_ != 0) return Result::more;
  const bool is_high = unit_ >= 0xd800 && unit_ <= 0xdbff, is_low = unit_ >= 0xdc00 && unit_ <= 0xdfff;
  if (is_low != low_expected_) return Result::wrong;
  low_expected_ = is_high;
  state_ = State::text;
  return Result::more;
}

JsonScanner::Result JsonScanner::push_text(char c) {
  const auto byte = static_cast<unsigned char>(c);
  switch (state_) {
    case State::escape:
      if (c == 'u') {
        digits_ = 4;
        unit_ = 0;
        state_ = State::unicode;
        return Result::more;
      }
      state_ = State::text;
      return !low_expected_ && std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos ? Result::more : Result::wrong;
    case State::unicode: return push_unicode(c);
    case State::bytes:
      if (byte < low_ || byte > high_) return Result::wrong;
      low_ = 0x80;
      high_ = 0xbf;
      if (--continuation_ == 0) state_ = State::text;
      return Result::more;
    default: break;
  }
  if (c == '\\') {
    state_ = State::escape;
    return Result::more;
  }
  if (low_expected_) return Result::wrong;
  if (byte >= 0x80) return push_lead(byte);
  if (c != '"') return Result::more;
  if (!key_) return end_value();
  state_ = State::colon;
  return Result::more;
}

JsonScanner::Result JsonScanner::push(char c) {
  if (state_ >= State::text) return push_text(c);
  if (state_ >= State::number_sign) return push_number(c);
  switch (state_) {
    case State::value:
    case State::first_item: return begin_value(c);
    case State::word:
      if (word_.empty() || c != word_[0]) return Result::wrong;
      word_.remove_prefix(1);
      return word_.empty() ? end_value() : Result::more;
    default: break;
  }
  if (is_space(c)) return Result::more;
  switch (state_) {
    case State::first_key:
    case State::key:
      if (c == '}' && state_ == State::first_key) {
        open_.pop_back();
        return end_value();
      }
      if (c != '"') return Result::wrong;
      key_ = true;
      state_ = State::text;
      return Result::more;
    case State::colon:
      state_ = State::value;
      return c == ':' ? Result::more : Result::wrong;
    default: break;
  }
  if (open_.empty()) return Result::wrong;
  if (c == ',') {
    state_ = open_.back() == '{' ? State::key : State::value;
    return Result::more;
  }
  if (c != (open_.back() == '{' ? '}' : ']')) return Result::wrong;
  open_.pop_back();
  return end_value();
}

bool JsonScanner::finish() {
  if (!open_.empty()) return false;
  return state_ == State::after || state_ == State::number_zero || state_ == State::number_whole || state_ == State::number_fraction ||
         state_ == State::number_exponent;
}

bool is_json(std::string_view text) {
  JsonScanner scanner;
  for (const char c : text) {
    // What stands behind a whole value is wrong, unless it is white space.
    if (scanner.push(c) == JsonScanner::Result::wrong) return false;
    if (scanner.in_text() && static_cast<unsigned char>(c) < 0x20) return false;
  }
  return scanner.finish();
}

void append_strict(std::string& out, char c, bool in_text) {
  static constexpr char hex[] = "0123456789abcdef";
  if (!in_text || static_cast<unsigned char>(c) >= 0x20) {
    out += c;
  } else if (c == '\n') {
    out += "\\n";
  } else {
    out += "\\u00";
    out += hex[c >> 4];
    out += hex[c & 15];
  }
}

}  // namespace bantam::inline v0::reply
