// Reads GBNF: the grammars of llama.cpp.
#include <optional>

#include "bantam/core/hash.hpp"
#include "grammar/rules.hpp"

namespace bantam::inline v0::grammar {

namespace {

constexpr int deepest_group = 200;                   // the reader's own recursion
constexpr std::int32_t most_repetitions = 1 << 16;   // what more than one book page asks for; the automaton has a bound of its own
constexpr std::size_t most_bytes = std::size_t{4} << 20;

class GbnfReader {
 public:
  GbnfReader(std::string_view text, std::string_view root) : all_(text), left_(text), root_(root) {
    if (text.size() > most_bytes) fail(Errc::unsupported, "grammar: expected at most ", most_bytes, " bytes, found ", text.size());
  }

  Rules read() {
    (void)rule_of(root_);
    skip(true);
    while (!left_.empty()) {
      read_rule();
      skip(true);
    }
    for (std::size_t i = 0; i < rules_.rules().size(); ++i) {
      if (rules_.rules()[i].body != Rules::undefined) continue;
      const std::string name = printable(rules_.rules()[i].name);
      if (i == 0) fail(Errc::invalid_argument, "grammar: expected a rule named ", name, ", found none");
      fail(Errc::invalid_argument, "grammar: expected a rule named ", name, ", which ", place_of(first_use_[i]), " uses, found none");
    }
    return std::move(rules_);
  }

 private:
  [[nodiscard]] std::size_t at() const noexcept { return all_.size() - left_.size(); }
  [[nodiscard]] std::string place_of(std::size_t offset) const {
    const std::string_view before = all_.substr(0, offset);
    std::size_t line = 1, column = 1;
    for (const char c : before) {
      column = c == '\n' ? 1 : column + 1;
      line += c == '\n' ? 1 : 0;
    }
    return message("line ", line, ", column ", column);
  }
  [[noreturn]] void refuse(std::string_view expected) const {
    fail(Errc::invalid_argument, "grammar: ", place_of(at()), ": expected ", expected, ", found ",
         left_.empty() ? std::string("the end") : "'" + printable(left_.substr(0, left_.find('\n')), 20) + "'");
  }

  [[nodiscard]] char peek(std::size_t i = 0) const noexcept { return i < left_.size() ? left_[i] : '\0'; }
  bool take(std::string_view token) {
    if (!left_.starts_with(token)) return false;
    left_.remove_prefix(token.size());
    return true;
  }
  void skip(bool newlines) {
    while (!left_.empty()) {
      const char c = left_.front();
      if (c == '#') {
        const std::size_t end = left_.find('\n');
        left_.remove_prefix(end == std::string_view::npos ? left_.size() : end);
      } else if (c == ' ' || c == '\t' || c == '\r' || (newlines && c == '\n')) {
        left_.remove_prefix(1);
      } else {
        return;
      }
    }
  }
  static bool in_name(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  }
  std::string_view name() {
    std::size_t size = 0;
    while (size < left_.size() && in_name(left_[size])) ++size;
    if (size == 0) refuse("a name");
    const std::string_view found = left_.substr(0, size);
    left_.remove_prefix(size);
    return found;
  }
  Rule rule_of(std::string_view name) {
    if (const auto known = by_name_.find(name); known != by_name_.end()) return known->second;
    const Rule rule = rules_.declare(std::string(name));
    by_name_.emplace(std::string(name), rule);
    first_use_.push_back(at() - std::min(at(), name.size()));
    return rule;
  }

  void read_rule() {
    const std::size_t begin = at();
    const Rule rule = rule_of(name());
    if (rules_.rules()[rule].body != Rules::undefined) {
      fail(Errc::invalid_argument, "grammar: ", place_of(begin), ": expected one rule named ", printable(rules_.rules()[rule].name), ", found two");
    }
    skip(false);
    if (!take("::=")) refuse("::=");
    skip(true);
    rules_.define(rule, alternatives(0));
    if (!left_.empty() && peek() != '\n') refuse("the end of the line");
  }

  Expr alternatives(int depth) {
    if (depth > deepest_group) refuse(message("at most ", deepest_group, " groups in each other"));
    std::vector<Expr> found{symbols(depth)};
    while (continues_with_bar()) {
      skip(true);
      found.push_back(symbols(depth));
    }
    return rules_.choice(std::move(found));
  }
  /// Also at the beginning of the next line.
  bool continues_with_bar() {
    const std::string_view before = left_;
    skip(true);
    if (take("|")) return true;
    left_ = before;
    return false;
  }

  Expr symbols(int depth) {
    std::vector<Expr> found;
    while (true) {
      skip(depth > 0);
      std::optional<Expr> next = symbol(depth);
      if (!next) break;
      skip(depth > 0);
      while (const auto counts = repetition()) {
        next = rules_.repeat(*next, counts->first, counts->second);
        skip(depth > 0);
      }
      found.push_back(*next);
    }
    return found.empty() ? rules_.nothing() : rules_.sequence(std::move(found));
  }

  std::optional<Expr> symbol(int depth) {
    if (take("\"")) return literal();
    if (take("[")) return char_class();
    if (take("(")) {
      skip(true);
      const Expr group = alternatives(depth + 1);
      skip(true);
      if (!take(")")) refuse(")");
      return group;
    }
    if (take(".")) return rules_.chars(CharSet::all());
    if (peek() == '<' || (peek() == '!' && peek(1) == '<')) return token();
    if (in_name(peek())) {
      const std::string_view used = name();
      return rules_.call(rule_of(used));
    }
    return std::nullopt;
  }

  Expr literal() {
    std::string bytes;
    while (!take("\"")) put_utf8(bytes, character());
    return rules_.text(bytes);
  }

  Expr char_class() {
    const bool negated = take("^");
    std::vector<CharRange> ranges;
    while (!take("]")) {
      CharRange range{character(), 0};
      range.last = range.first;
      if (peek() == '-' && peek(1) != ']') {
        take("-");
        range.last = character();
        if (range.last < range.first) refuse("a range that rises in front of this");
      }
      ranges.push_back(range);
    }
    const CharSet set(std::move(ranges));
    return rules_.chars(negated ? set.negated() : set);
  }

  std::uint32_t character() {
    if (left_.empty() || peek() == '\n') refuse("a character");
    if (!take("\\")) {
      std::uint32_t code = 0;
      if (!take_utf8(left_, code)) refuse("UTF-8");
      return code;
    }
    constexpr std::pair<char, char> plain[] = {{'t', '\t'}, {'r', '\r'}, {'n', '\n'}, {'\\', '\\'}, {'"', '"'}, {'[', '['}, {']', ']'}, {'-', '-'}, {'^', '^'}};
    for (const auto& [letter, code] : plain) {
      if (peek() == letter) {
        left_.remove_prefix(1);
        return static_cast<std::uint32_t>(code);
      }
    }
    for (const auto& [letter, digits] : {std::pair{'x', 2}, std::pair{'u', 4}, std::pair{'U', 8}}) {
      if (peek() == letter) {
        left_.remove_prefix(1);
        return hex(digits);
      }
    }
    refuse("t, r, n, \\, \", [, ], x, u or U behind \\");
  }

  std::uint32_t hex(int digits) {
    std::uint64_t code = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (digit < 0) refuse(message(digits, " hexadecimal digits"));
      code = code << 4 | static_cast<std::uint64_t>(digit);
      left_.remove_prefix(1);
    }
    if (code > CharSet::last_code_point || (code >= 0xd800 && code < 0xe000)) refuse("a character of Unicode in front of this");
    return static_cast<std::uint32_t>(code);
  }

  Expr token() {
    TokenName token;
    token.negated = take("!");
    const std::string_view begin = left_;
    take("<");
    if (take("[")) {
      token.id = number();
      if (!take("]>")) refuse("]>");
      return rules_.token(std::move(token));
    }
    const std::size_t end = left_.find_first_of(">\n");
    if (end == std::string_view::npos || left_[end] == '\n' || end == 0) refuse("a token's text and >");
    token.text = std::string(begin.substr(0, end + 2));
    left_.remove_prefix(end + 1);
    return rules_.token(std::move(token));
  }

  std::int32_t number() {
    if (peek() < '0' || peek() > '9') refuse("a number");
    std::int64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = 10 * value + (peek() - '0');
      if (value > 0x7fffffff) refuse("a number below 2147483648");
      left_.remove_prefix(1);
    }
    return static_cast<std::int32_t>(value);
  }

  std::optional<std::pair<std::int32_t, std::int32_t>> repetition() {
    if (take("*")) return std::pair(0, Rules::unbounded);
    if (take("+")) return std::pair(1, Rules::unbounded);
    if (take("?")) return std::pair(0, 1);
    if (!take("{")) return std::nullopt;
    const auto count = [&] {
      skip(true);
      const std::int32_t found = number();
      if (found > most_repetitions) refuse(message("at most ", most_repetitions, " repetitions in front of this"));
      skip(true);
      return found;
    };
    const std::int32_t least = count();
    std::int32_t most = least;
    if (take(",")) {
      skip(true);
      most = peek() == '}' ? Rules::unbounded : count();
    }
    if (most != Rules::unbounded && most < least) refuse("a greatest number of repetitions that is not below the least");
    if (!take("}")) refuse("}");
    return std::pair(least, most);
  }

  std::string_view all_;
  std::string_view left_;
  std::string_view root_;
  Rules rules_;
  HashMap<std::string, Rule> by_name_;
  std::vector<std::size_t> first_use_;
};

}  // namespace

Rules read_gbnf(std::string_view text, std::string_view root) { return GbnfReader(text, root).read(); }

}  // namespace bantam::inline v0::grammar
