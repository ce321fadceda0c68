// The two states of a template, text and tag, and the tokens of each.
#include "text/jinja/lexer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "bantam/core/error.hpp"
#include "text/jinja/limits.hpp"
#include "text/jinja/unicode.hpp"

namespace bantam::inline v0::jinja {

namespace {

constexpr std::size_t npos = std::string_view::npos;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Line ends become \n; one at the very end is dropped, as Jinja does unless told to keep it.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& place) : place_(place), source_(normalize(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text();
    push(TokenKind::end, {});
    return std::move(tokens_);
  }

 private:
  template <class... Args>
  [[noreturn]] void error(const Args&... args) const {
    fail(Errc::corrupt, place_, ": line ", line_, ": ", args...);
  }

  [[nodiscard]] bool starts_with(std::string_view what) const {
    return std::string_view(source_).substr(at_, what.size()) == what;
  }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  void advance(std::size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes), '\n'));
    at_ += bytes;
  }
  Token& push(TokenKind kind, std::string text) {
    return tokens_.emplace_back(Token{.kind = kind, .line = line_, .text = std::move(text)});
  }

  [[nodiscard]] std::size_t space_at(std::size_t from) const {
    std::size_t at = from;
    while (at < source_.size()) {
      const Character c = character_at(source_, at);
      if (!is_space(c.value)) break;
      at += c.size;
    }
    return at - from;
  }
  void skip_space() { advance(space_at(at_)); }

  /// Text up to the next tag, then that tag.
  void text() {
    std::size_t tag = at_;
    while (tag = source_.find('{', tag), tag != npos) {
      if (tag + 1 < source_.size() && (source_[tag + 1] == '%' || source_[tag + 1] == '{' || source_[tag + 1] == '#')) break;
      ++tag;
    }
    if (tag == npos) {
      emit_text(std::string_view(source_).substr(at_));
      advance(source_.size() - at_);
      return;
    }
    const char type = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    emit_text(before_tag(std::string_view(source_).substr(at_, tag - at_), sign, type == '{'));
    advance(tag - at_ + 2);
    if (sign == '-' || sign == '+') advance(1);
    if (type == '#') return comment();
    if (type == '%' && raw()) return;
    push(type == '{' ? TokenKind::variable_begin : TokenKind::block_begin, {});
    inside(type == '{');
  }

  void emit_text(std::string_view text) {
    if (!text.empty()) push(TokenKind::data, std::string(text));
  }

  /// What is left of the text before a tag: all white space goes for '-', indentation of the tag's line goes before
  /// blocks and comments unless '+' keeps it.
  [[nodiscard]] std::string_view before_tag(std::string_view text, char sign, bool variable) const {
    if (sign == '-') {
      std::size_t end = 0;
      for (std::size_t at = 0; at < text.size();) {
        const Character c = character_at(text, at);
        at += c.size;
        if (!is_space(c.value)) end = at;
      }
      return text.substr(0, end);
    }
    if (sign == '+' || variable) return text;
    const std::size_t newline = text.rfind('\n');
    if (newline == npos && !line_starting_) return text;
    const std::size_t start = newline == npos ? 0 : newline + 1;
    for (std::size_t at = start; at < text.size();) {
      const Character c = character_at(text, at);
      if (!is_space(c.value)) return text;
      at += c.size;
    }
    return text.substr(0, start);
  }

  /// Behind the end of a tag: '-' takes all white space, a block or comment takes one line end unless '+'.
  void after_tag(char sign, bool variable) {
    const std::size_t before = at_;
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && !variable && peek() == '\n') {
      advance(1);
    }
    line_starting_ = at_ > before && source_[at_ - 1] == '\n';
  }

  /// The length of an end tag ("%}", "-%}", "+%}") at a place, 0 if there is none.
  [[nodiscard]] std::size_t end_tag(std::size_t at, std::string_view end, bool plus) const {
    const std::string_view rest = std::string_view(source_).substr(at);
    if (rest.substr(0, 2) == end) return 2;
    const bool sign = !rest.empty() && (rest[0] == '-' || (plus && rest[0] == '+'));
    return sign && rest.substr(1, 2) == end ? 3 : 0;
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == npos) error("expected '#}', found the end of the template in a comment");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end + 2 - at_);
    after_tag(sign, false);
  }

  /// {% raw %}...{% endraw %}; false if the tag is another.
  bool raw() {
    std::size_t at = at_ + space_at(at_);
    if (std::string_view(source_).substr(at, 3) != "raw") return false;
    at += 3;
    at += space_at(at);
    const std::size_t length = end_tag(at, "%}", false);
    if (length == 0) return false;
    const char sign = source_[at];
    advance(at + length - at_);
    if (sign == '-') skip_space();
    line_starting_ = source_[at_ - 1] == '\n';
    for (std::size_t tag = source_.find("{%", at_); tag != npos; tag = source_.find("{%", tag + 1)) {
      std::size_t next = tag + 2;
      const char begin = next < source_.size() ? source_[next] : '\0';
      if (begin == '-' || begin == '+') ++next;
      next += space_at(next);
      if (std::string_view(source_).substr(next, 6) != "endraw") continue;
      next += 6;
      next += space_at(next);
      const std::size_t size = end_tag(next, "%}", true);
      if (size == 0) continue;
      emit_text(before_tag(std::string_view(source_).substr(at_, tag - at_), begin, false));
      const char end = source_[next];
      advance(next + size - at_);
      after_tag(end, false);
      return true;
    }
    error("expected '{% endraw %}', found the end of the template");
  }

  void inside(bool variable) {
    const std::string_view end = variable ? "}}" : "%}";
    std::string open;
    while (at_ < source_.size()) {
      if (open.empty()) {
        if (const std::size_t length = end_tag(at_, end, !variable)) {
          push(variable ? TokenKind::variable_end : TokenKind::block_end, {});
          const char sign = source_[at_];
          advance(length);
          return after_tag(sign, variable);
        }
      }
      if (const std::size_t space = space_at(at_)) {
        advance(space);
      } else if (is_digit(peek())) {
        number();
      } else if (peek() == '\'' || peek() == '"') {
        string();
      } else if (!name()) {
        symbol(open);
      }
    }
    // The parser says what was missing, unless brackets are open: then it would wait for the wrong thing.
    if (!open.empty()) error("expected '", open.back(), "', found the end of the template");
  }

  bool name() {
    std::size_t end = at_;
    while (end < source_.size()) {
      const Character c = character_at(source_, end);
      if (!is_word(c.value)) break;
      end += c.size;
    }
    if (end == at_) return false;
    push(TokenKind::name, source_.substr(at_, end - at_));
    at_ = end;
    return true;
  }

  void symbol(std::string& open) {
    static constexpr std::array<std::string_view, 6> pairs = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view pair : pairs) {
      if (starts_with(pair)) {
        push(TokenKind::symbol, std::string(pair));
        at_ += 2;
        return;
      }
    }
    const char c = peek();
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == npos) {
      error("expected a tag's code, found '", printable(std::string_view(source_).substr(at_, 1)), "'");
    }
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) error("found '", c, "' without its opening bracket");
      if (open.back() != c) error("expected '", open.back(), "', found '", c, "'");
      open.pop_back();
    }
    push(TokenKind::symbol, std::string(1, c));
    ++at_;
  }

  /// Digits with single underscores between them; the offset behind them.
  [[nodiscard]] std::size_t digits(std::size_t at) const {
    while (at < source_.size() && is_digit(source_[at])) {
      ++at;
      if (at + 1 < source_.size() && source_[at] == '_' && is_digit(source_[at + 1])) ++at;
    }
    return at;
  }

  void number() {
    // "x.0.1" is two subscripts, not a subscript by 0.1.
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    std::size_t end = digits(at_);
    bool real = false;
    if (!after_dot) {
      if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
        end = digits(end + 1);
        real = true;
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        std::size_t exponent = end + 1;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
        if (exponent < source_.size() && is_digit(source_[exponent])) {
          end = digits(exponent);
          real = true;
        }
      }
    }
    if (real) return real_number(end);
    integer(end);
  }

  [[nodiscard]] std::string spelled(std::size_t from, std::size_t end) const {
    std::string out = source_.substr(from, end - from);
    std::erase(out, '_');
    return out;
  }

  void real_number(std::size_t end) {
    const std::string text = spelled(at_, end);
    double value = 0;
    const auto [last, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    // Too large is infinity and too small zero, as in Python.
    if (code == std::errc::result_out_of_range) {
      const std::size_t e = text.find_first_of("eE");
      value = e != npos && text[e + 1] == '-' ? 0.0 : std::numeric_limits<double>::infinity();
    }
    push(TokenKind::real, text).real = value;
    at_ = end;
  }

  void integer(std::size_t end) {
    int base = 10;
    std::size_t from = at_;
    if (peek() == '0') {
      const char mark = static_cast<char>(peek(1) | 0x20);
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      if (base != 10) {
        const auto belongs = [&](char c) {
          const char low = static_cast<char>(c | 0x20);
          const int digit = is_digit(c) ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : 99;
          return digit < base;
        };
        std::size_t at = from + 2;
        while (at < source_.size() &&
               (belongs(source_[at]) || (source_[at] == '_' && at + 1 < source_.size() && belongs(source_[at + 1])))) {
          ++at;
        }
        if (at > from + 2) {
          from += 2;
          end = at;
        } else {
          base = 10;
        }
      }
      // A number with a leading zero ends behind its zeros: what follows is another token, as in Jinja.
      if (base == 10) {
        end = at_;
        while (end < source_.size() && (source_[end] == '0' || (source_[end] == '_' && end + 1 < source_.size() && source_[end + 1] == '0'))) ++end;
      }
    }
    const std::string text = spelled(from, end);
    std::int64_t value = 0;
    const auto [last, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (code != std::errc{}) error("expected an integer of at most 64 bits, found ", printable(text));
    push(TokenKind::integer, text).integer = value;
    at_ = end;
  }

  void string() {
    const char quote = peek();
    const std::size_t from = at_ + 1;
    std::size_t end = from;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) error("expected ", quote, ", found the end of the template in a string");
    Token& token = push(TokenKind::string, {});
    std::string text = unescape(std::string_view(source_).substr(from, end - from));
    token.text = std::move(text);
    advance(end + 1 - at_);
  }

  std::string unescape(std::string_view text) const {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      static constexpr std::string_view plain = "\\'\"abfnrtv", meaning = "\\'\"\a\b\f\n\r\t\v";
      if (const std::size_t known = plain.find(c); known != npos) {
        out += meaning[known];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const std::size_t length = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        append_code_point(out, text.substr(i + 1, length), length);
        i += length;
      } else if (c >= '0' && c <= '7') {
        std::int32_t value = 0;
        std::size_t end = i;
        while (end < text.size() && end < i + 3 && text[end] >= '0' && text[end] <= '7') value = value * 8 + (text[end++] - '0');
        append_utf8(out, value);
        i = end - 1;
      } else if (c == 'N') {
        error("found a \\N{...} escape, which is not supported");
      } else if (c != '\n') {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  void append_code_point(std::string& out, std::string_view hex, std::size_t length) const {
    std::uint32_t value = 0;
    const auto [end, code] = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
    const bool whole = code == std::errc{} && hex.size() == length && end == hex.data() + hex.size();
    if (!whole || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
      error("expected ", length, " hexadecimal digits of a character, found '", printable(hex), "'");
    }
    append_utf8(out, static_cast<std::int32_t>(value));
  }

  const std::string& place_;
  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const std::string& place) {
  if (source.size() > max_template_bytes) {
    fail(Errc::unsupported, place, ": expected at most ", max_template_bytes, " bytes of template, found ", source.size());
  }
  return Lexer(source, place).run();
}

}  // namespace bantam::inline v0::jinja
