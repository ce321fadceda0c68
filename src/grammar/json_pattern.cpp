// Regular expressions, in schemas and alone.
#include <algorithm>
#include <optional>

#include "grammar/json_strings.hpp"

namespace bantam::inline v0::grammar {

namespace {

constexpr int deepest_pattern = 100;
constexpr std::int32_t most_pattern_repeats = 1 << 14;

/// How characters of a set stand in the text.
using CharactersOf = Expr (*)(Rules& rules, const CharSet& set);

class PatternReader {
 public:
  /// `whole`: it is the text's, not of a part of it.
  PatternReader(Rules& rules, std::string_view pattern, std::string place, CharactersOf characters, bool whole)
      : rules_(rules), all_(pattern), left_(pattern), place_(std::move(place)), characters_(characters), whole_(whole) {}

  Expr read() {
    // An anchor binds its alternative alone; where none is, anything may stand.
    std::vector<Expr> ways;
    do {
      const bool begins = take('^');
      const Expr body = sequence(0);
      const bool ends = take('$');
      std::vector<Expr> parts;
      if (!begins && !whole_) parts.push_back(anything());
      parts.push_back(body);
      if (!ends && !whole_) parts.push_back(anything());
      ways.push_back(rules_.sequence(std::move(parts)));
    } while (take('|'));
    if (!left_.empty()) refuse("the end");
    return rules_.choice(std::move(ways));
  }

 private:
  [[noreturn]] void refuse(std::string_view expected) const {
    fail(Errc::unsupported, place_, ": byte ", all_.size() - left_.size(), ": expected ", expected, ", found ",
         left_.empty() ? std::string("the end") : "'" + printable(left_, 20) + "'");
  }
  [[nodiscard]] char peek(std::size_t i = 0) const noexcept { return i < left_.size() ? left_[i] : '\0'; }
  bool take(char c) {
    if (left_.empty() || left_.front() != c) return false;
    left_.remove_prefix(1);
    return true;
  }
  Expr anything() { return rules_.repeat(characters_(rules_, CharSet::all()), 0); }

  Expr alternatives(int depth) {
    if (depth > deepest_pattern) refuse(message("at most ", deepest_pattern, " groups in each other"));
    std::vector<Expr> ways{sequence(depth)};
    while (take('|')) ways.push_back(sequence(depth));
    return rules_.choice(std::move(ways));
  }

  Expr sequence(int depth) {
    std::vector<Expr> parts;
    while (!left_.empty() && peek() != '|' && peek() != ')' && peek() != '$') {
      Expr next = atom(depth);
      while (const auto counts = repetition()) {
        next = rules_.repeat(next, counts->first, counts->second);
        (void)take('?');  // lazy: the same texts
      }
      parts.push_back(next);
    }
    return parts.empty() ? rules_.nothing() : rules_.sequence(std::move(parts));
  }

  Expr atom(int depth) {
    if (take('(')) {
      if (take('?') && !take(':')) refuse("a group without assertion or name");
      const Expr group = alternatives(depth + 1);
      if (!take(')')) refuse(")");
      return group;
    }
    if (take('[')) return characters_(rules_, char_class());
    if (take('.')) return characters_(rules_, line_ends().negated());
    if (peek() == '^') refuse("^ at the beginning alone");
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{' || peek() == '}' || peek() == ']') refuse("a character, which to repeat or with \\ in front");
    return characters_(rules_, take('\\') ? escape() : one(character()));
  }

  static CharSet one(std::uint32_t code) { return {{code, code}}; }
  static CharSet line_ends() { return {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}; }
  std::uint32_t character() {
    std::uint32_t code = 0;
    if (!take_utf8(left_, code)) refuse("a character");
    return code;
  }

  CharSet escape() {
    const CharSet digits{{'0', '9'}};
    const CharSet word{{'0', '9'}, {'a', 'z'}, {'A', 'Z'}, {'_', '_'}};
    const CharSet space{{9, 13}, {' ', ' '}, {0xa0, 0xa0}, {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    const char c = peek();
    constexpr std::pair<char, std::uint32_t> controls[] = {{'n', 10}, {'r', 13}, {'t', 9}, {'f', 12}, {'v', 11}, {'0', 0}};
    for (const auto& [letter, code] : controls) {
      if (c == letter) {
        left_.remove_prefix(1);
        return one(code);
      }
    }
    switch (c) {
      case 'd': return left_.remove_prefix(1), digits;
      case 'D': return left_.remove_prefix(1), digits.negated();
      case 'w': return left_.remove_prefix(1), word;
      case 'W': return left_.remove_prefix(1), word.negated();
      case 's': return left_.remove_prefix(1), space;
      case 'S': return left_.remove_prefix(1), space.negated();
      case 'x': return left_.remove_prefix(1), one(hex(2));
      case 'u': return left_.remove_prefix(1), one(hex(4));
      default: break;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) refuse("d, D, w, W, s, S, n, r, t, f, v, 0, x or u behind \\");
    return one(character());
  }
  std::uint32_t hex(int digits) {
    std::uint32_t code = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (digit < 0) refuse(message(digits, " hexadecimal digits"));
      code = code << 4 | static_cast<std::uint32_t>(digit);
      left_.remove_prefix(1);
    }
    if (code >= 0xd800 && code < 0xe000) refuse("no half of a pair in front of this");
    return code;
  }

  CharSet char_class() {
    const bool negated = take('^');
    CharSet set;
    while (!take(']')) {
      if (left_.empty()) refuse("]");
      const CharSet low = take('\\') ? escape() : one(character());
      if (peek() != '-' || peek(1) == ']' || low.count() != 1) {
        set = set.joined(low);
        continue;
      }
      (void)take('-');
      const CharSet high = take('\\') ? escape() : one(character());
      const CharRange range{low.ranges().front().first, high.ranges().front().first};
      if (high.count() != 1 || range.last < range.first) refuse("a range that rises in front of this");
      set = set.joined({range});
    }
    return negated ? set.negated() : set;
  }

  std::optional<std::pair<std::int32_t, std::int32_t>> repetition() {
    if (take('*')) return std::pair(0, Rules::unbounded);
    if (take('+')) return std::pair(1, Rules::unbounded);
    if (take('?')) return std::pair(0, 1);
    if (!take('{')) return std::nullopt;
    const std::int32_t least = number();
    std::int32_t most = least;
    if (take(',')) most = peek() == '}' ? Rules::unbounded : number();
    if (!take('}') || (most != Rules::unbounded && most < least)) refuse("a number of repetitions, or two that rise, and }");
    return std::pair(least, most);
  }
  std::int32_t number() {
    std::int32_t value = 0;
    if (peek() < '0' || peek() > '9') refuse("a number");
    while (peek() >= '0' && peek() <= '9') {
      value = 10 * value + (peek() - '0');
      if (value > most_pattern_repeats) refuse(message("at most ", most_pattern_repeats, " repetitions"));
      left_.remove_prefix(1);
    }
    return value;
  }

  Rules& rules_;
  std::string_view all_;
  std::string_view left_;
  std::string place_;
  CharactersOf characters_;
  bool whole_;
};

}  // namespace

Expr json_pattern(Rules& rules, std::string_view pattern, std::string_view place) {
  return PatternReader(rules, pattern, "schema: " + std::string(place), json_characters_of, false).read();
}

Rules read_regex(std::string_view pattern) {
  constexpr std::size_t most_bytes = std::size_t{1} << 20;
  if (pattern.size() > most_bytes) fail(Errc::unsupported, "regex: expected at most ", most_bytes, " bytes, found ", pattern.size());
  Rules rules;
  const Rule root = rules.declare("root");
  const auto plain = [](Rules& r, const CharSet& set) { return set.ranges().empty() ? r.choice({}) : r.chars(set); };
  rules.define(root, PatternReader(rules, pattern, "regex", plain, true).read());
  return rules;
}

}  // namespace bantam::inline v0::grammar
