// Tokens to a syntax tree.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/lexer.hpp"
#include "text/jinja/nodes.hpp"

namespace bantam::inline v0::jinja {

/// The tree of a template. Throws corrupt (place, line, expected, found) or unsupported (over a limit).
[[nodiscard]] Body parse(std::string_view source, const std::string& place);

/// Reads tokens and expressions; the statements' parser builds on it.
class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, const std::string& place) : place_(place), tokens_(std::move(tokens)) {}

 protected:
  template <class... Args>
  [[noreturn]] void error_at(int line, const Args&... args) const {
    fail(Errc::corrupt, place_, ": line ", line, ": ", args...);
  }
  [[noreturn]] void expected(std::string_view what) const;

  // ---- tokens
  [[nodiscard]] const Token& token() const { return tokens_[at_]; }
  [[nodiscard]] const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  [[nodiscard]] int line() const { return token().line; }
  [[nodiscard]] bool is(TokenKind kind) const { return token().kind == kind; }
  [[nodiscard]] bool is_symbol(std::string_view text) const { return is(TokenKind::symbol) && token().text == text; }
  [[nodiscard]] bool is_name(std::string_view text) const { return is(TokenKind::name) && token().text == text; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool skip_symbol(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_symbol(std::string_view text);
  std::string expect_name();

  // ---- expressions, from the loosest to the tightest
  ExpressionPtr parse_tuple(bool conditional = true, bool parentheses = false);
  ExpressionPtr parse_expression();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool filters = true);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr expression);
  ExpressionPtr parse_subscript(ExpressionPtr expression);
  ExpressionPtr parse_slice(ExpressionPtr expression, int line, ExpressionPtr start);
  ExpressionPtr parse_filters(ExpressionPtr expression, bool first_inline = false);
  ExpressionPtr parse_test(ExpressionPtr expression);
  CallArguments parse_arguments();
  std::string dotted_name();

  /// One level of nesting (or none yet) for as long as it lives.
  class Level {
   public:
    explicit Level(ExpressionParser& parser, int count = 1) : parser_(parser), count_(count) {
      if (count > 0) parser.deepen();
    }
    ~Level() { parser_.depth_ -= count_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    /// One more: a filter behind a filter nests the tree although the parser only loops.
    void more() {
      parser_.deepen();
      ++count_;
    }

   private:
    ExpressionParser& parser_;
    int count_;
  };
  void deepen();

  const std::string& place_;
  /// Filters and tests that do not exist: an error, unless the use is conditional (Jinja then waits until it is reached).
  std::vector<std::pair<std::string, int>> unknown_;
  /// The special names that a macro's body mentions.
  bool saw_caller_ = false, saw_varargs_ = false, saw_kwargs_ = false;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace bantam::inline v0::jinja
