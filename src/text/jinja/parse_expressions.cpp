// The grammar of expressions: Jinja's levels of precedence, one function each.
#include <array>

#include "text/jinja/parser.hpp"

namespace bantam::inline v0::jinja {

namespace {

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data: return "text";
    case TokenKind::block_begin: return "'{%'";
    case TokenKind::block_end: return "'%}'";
    case TokenKind::variable_begin: return "'{{'";
    case TokenKind::variable_end: return "'}}'";
    case TokenKind::string: return "a string";
    case TokenKind::end: return "the end of the template";
    default: return message("'", printable(token.text), "'");
  }
}

}  // namespace

void ExpressionParser::expected(std::string_view what) const {
  error_at(line(), "expected ", what, ", found ", describe(token()));
}

void ExpressionParser::deepen() {
  if (depth_ >= max_nesting) {
    fail(Errc::unsupported, place_, ": line ", line(), ": expected at most ", max_nesting, " levels of nesting, found more");
  }
  ++depth_;
}

bool ExpressionParser::skip_symbol(std::string_view text) {
  if (!is_symbol(text)) return false;
  next();
  return true;
}

bool ExpressionParser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  next();
  return true;
}

void ExpressionParser::expect_symbol(std::string_view text) {
  if (!skip_symbol(text)) expected(message("'", text, "'"));
}

std::string ExpressionParser::expect_name() {
  if (!is(TokenKind::name)) expected("a name");
  return next().text;
}

/// One expression, or several with commas between them as a tuple.
ExpressionPtr ExpressionParser::parse_tuple(bool conditional, bool parentheses) {
  const int start = line();
  std::vector<ExpressionPtr> items;
  bool tuple = false;
  while (!is(TokenKind::variable_end) && !is(TokenKind::block_end) && !is_symbol(")")) {
    items.push_back(conditional ? parse_expression() : parse_or());
    if (!skip_symbol(",")) break;
    tuple = true;
  }
  if (!tuple && !items.empty()) return std::move(items[0]);
  if (items.empty() && !parentheses) expected("an expression");
  return std::make_unique<Sequence>(start, ListKind::tuple, std::move(items));
}

ExpressionPtr ExpressionParser::parse_expression() {
  Level level(*this);
  const int start = line();
  const std::size_t known = unknown_.size();
  ExpressionPtr yes = parse_or();
  while (skip_name("if")) {
    level.more();
    ExpressionPtr condition = parse_or();
    ExpressionPtr no = skip_name("else") ? parse_expression() : nullptr;
    yes = std::make_unique<Conditional>(start, std::move(condition), std::move(yes), std::move(no));
    unknown_.resize(known);
  }
  return yes;
}

ExpressionPtr ExpressionParser::parse_or() {
  const int start = line();
  ExpressionPtr first = parse_and();
  if (!is_name("or")) return first;
  std::vector<ExpressionPtr> items;
  items.push_back(std::move(first));
  while (skip_name("or")) items.push_back(parse_and());
  return std::make_unique<Logic>(start, false, std::move(items));
}

ExpressionPtr ExpressionParser::parse_and() {
  const int start = line();
  ExpressionPtr first = parse_not();
  if (!is_name("and")) return first;
  std::vector<ExpressionPtr> items;
  items.push_back(std::move(first));
  while (skip_name("and")) items.push_back(parse_not());
  return std::make_unique<Logic>(start, true, std::move(items));
}

ExpressionPtr ExpressionParser::parse_not() {
  const int start = line();
  if (!skip_name("not")) return parse_comparison();
  const Level level(*this);
  return std::make_unique<Unary>(start, UnaryKind::not_, parse_not());
}

ExpressionPtr ExpressionParser::parse_comparison() {
  static constexpr std::array<std::string_view, 6> operators = {"==", "!=", "<", "<=", ">", ">="};
  const int start = line();
  ExpressionPtr first = parse_sum();
  std::unique_ptr<Comparison> comparison;
  while (true) {
    std::string op;
    if (is(TokenKind::symbol)) {
      for (const std::string_view known : operators) {
        if (token().text == known) op = known;
      }
      if (op.empty()) break;
      next();
    } else if (skip_name("in")) {
      op = "in";
    } else if (is_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
      next();
      next();
      op = "notin";
    } else {
      break;
    }
    if (!comparison) comparison = std::make_unique<Comparison>(start, std::move(first));
    comparison->rest.emplace_back(std::move(op), parse_sum());
  }
  if (comparison) return comparison;
  return first;
}

ExpressionPtr ExpressionParser::parse_sum() {
  const int start = line();
  ExpressionPtr first = parse_concatenation();
  std::unique_ptr<Chain> chain;
  while (is_symbol("+") || is_symbol("-")) {
    if (!chain) chain = std::make_unique<Chain>(start, std::move(first));
    std::string op = next().text;
    chain->rest.emplace_back(std::move(op), parse_concatenation());
  }
  if (chain) return chain;
  return first;
}

ExpressionPtr ExpressionParser::parse_concatenation() {
  const int start = line();
  ExpressionPtr first = parse_product();
  if (!is_symbol("~")) return first;
  std::vector<ExpressionPtr> items;
  items.push_back(std::move(first));
  while (skip_symbol("~")) items.push_back(parse_product());
  return std::make_unique<Concatenation>(start, std::move(items));
}

ExpressionPtr ExpressionParser::parse_product() {
  const int start = line();
  ExpressionPtr first = parse_power();
  std::unique_ptr<Chain> chain;
  while (is_symbol("*") || is_symbol("/") || is_symbol("//") || is_symbol("%")) {
    if (!chain) chain = std::make_unique<Chain>(start, std::move(first));
    std::string op = next().text;
    chain->rest.emplace_back(std::move(op), parse_power());
  }
  if (chain) return chain;
  return first;
}

ExpressionPtr ExpressionParser::parse_power() {
  const int start = line();
  ExpressionPtr first = parse_unary();
  std::unique_ptr<Chain> chain;
  while (skip_symbol("**")) {
    if (!chain) chain = std::make_unique<Chain>(start, std::move(first));
    chain->rest.emplace_back("**", parse_unary());
  }
  if (chain) return chain;
  return first;
}

ExpressionPtr ExpressionParser::parse_unary(bool filters) {
  Level level(*this, 0);
  const int start = line();
  ExpressionPtr expression;
  if (is_symbol("-") || is_symbol("+")) level.more();
  if (skip_symbol("-")) {
    expression = std::make_unique<Unary>(start, UnaryKind::minus, parse_unary(false));
  } else if (skip_symbol("+")) {
    expression = std::make_unique<Unary>(start, UnaryKind::plus, parse_unary(false));
  } else {
    expression = parse_primary();
  }
  expression = parse_postfix(std::move(expression));
  while (filters) {
    if (is_symbol("|")) {
      level.more();
      expression = parse_filters(std::move(expression));
    } else if (is_name("is")) {
      level.more();
      expression = parse_test(std::move(expression));
    } else if (is_symbol("(")) {
      level.more();
      const int at = line();
      expression = std::make_unique<Call>(at, std::move(expression), parse_arguments());
    } else {
      break;
    }
  }
  return expression;
}

ExpressionPtr ExpressionParser::parse_name() {
  const int start = line();
  const std::string name = next().text;
  if (name == "true" || name == "True") return std::make_unique<Constant>(start, Value(true));
  if (name == "false" || name == "False") return std::make_unique<Constant>(start, Value(false));
  if (name == "none" || name == "None") return std::make_unique<Constant>(start, Value(None{}));
  if (name == "caller") saw_caller_ = true;
  if (name == "varargs") saw_varargs_ = true;
  if (name == "kwargs") saw_kwargs_ = true;
  return std::make_unique<Name>(start, name);
}

ExpressionPtr ExpressionParser::parse_primary() {
  const int start = line();
  if (is(TokenKind::name)) return parse_name();
  if (is(TokenKind::string)) {
    std::string text;
    while (is(TokenKind::string)) text += next().text;
    return std::make_unique<Constant>(start, Value(std::make_shared<const Text>(Text{std::move(text)})));
  }
  if (is(TokenKind::integer)) return std::make_unique<Constant>(start, Value(next().integer));
  if (is(TokenKind::real)) return std::make_unique<Constant>(start, Value(next().real));
  if (skip_symbol("(")) {
    ExpressionPtr inner = parse_tuple(true, true);
    expect_symbol(")");
    return inner;
  }
  if (is_symbol("[")) return parse_list();
  if (is_symbol("{")) return parse_dict();
  expected("an expression");
}

ExpressionPtr ExpressionParser::parse_list() {
  const int start = line();
  expect_symbol("[");
  std::vector<ExpressionPtr> items;
  while (!is_symbol("]")) {
    items.push_back(parse_expression());
    if (!skip_symbol(",")) break;
  }
  expect_symbol("]");
  return std::make_unique<Sequence>(start, ListKind::list, std::move(items));
}

ExpressionPtr ExpressionParser::parse_dict() {
  auto dict = std::make_unique<DictLiteral>(line());
  expect_symbol("{");
  while (!is_symbol("}")) {
    ExpressionPtr key = parse_expression();
    expect_symbol(":");
    ExpressionPtr value = parse_expression();
    dict->items.emplace_back(std::move(key), std::move(value));
    if (!skip_symbol(",")) break;
  }
  expect_symbol("}");
  return dict;
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr expression) {
  Level level(*this, 0);
  while (is_symbol(".") || is_symbol("[") || is_symbol("(")) {
    level.more();
    const int start = line();
    if (is_symbol("(")) {
      expression = std::make_unique<Call>(start, std::move(expression), parse_arguments());
    } else {
      expression = parse_subscript(std::move(expression));
    }
  }
  return expression;
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr expression) {
  const int start = line();
  if (skip_symbol(".")) {
    if (is(TokenKind::name)) return std::make_unique<Attribute>(start, std::move(expression), next().text);
    if (!is(TokenKind::integer)) expected("a name or a number");
    auto index = std::make_unique<Constant>(start, Value(next().integer));
    return std::make_unique<Item>(start, std::move(expression), std::move(index));
  }
  expect_symbol("[");
  if (is_symbol(":")) return parse_slice(std::move(expression), start, nullptr);
  ExpressionPtr index = parse_expression();
  if (is_symbol(":")) return parse_slice(std::move(expression), start, std::move(index));
  if (is_symbol(",")) {
    std::vector<ExpressionPtr> items;
    items.push_back(std::move(index));
    while (skip_symbol(",")) items.push_back(parse_expression());
    index = std::make_unique<Sequence>(start, ListKind::tuple, std::move(items));
  }
  expect_symbol("]");
  return std::make_unique<Item>(start, std::move(expression), std::move(index));
}

ExpressionPtr ExpressionParser::parse_slice(ExpressionPtr expression, int start_line, ExpressionPtr start) {
  auto slice = std::make_unique<Slice>(start_line, std::move(expression));
  slice->start = std::move(start);
  expect_symbol(":");
  if (!is_symbol(":") && !is_symbol("]")) slice->stop = parse_expression();
  if (skip_symbol(":") && !is_symbol("]")) slice->step = parse_expression();
  expect_symbol("]");
  return slice;
}

CallArguments ExpressionParser::parse_arguments() {
  CallArguments out;
  expect_symbol("(");
  while (!is_symbol(")")) {
    if (is_symbol("*") && !out.more_positional && !out.more_named) {
      next();
      out.more_positional = parse_expression();
    } else if (is_symbol("**") && !out.more_named) {
      next();
      out.more_named = parse_expression();
    } else if (is(TokenKind::name) && ahead().kind == TokenKind::symbol && ahead().text == "=" && !out.more_named) {
      std::string name = next().text;
      next();
      out.named.emplace_back(std::move(name), parse_expression());
    } else if (out.named.empty() && !out.more_positional && !out.more_named) {
      out.positional.push_back(parse_expression());
    } else {
      expected("an argument with a name");
    }
    if (!skip_symbol(",")) break;
  }
  expect_symbol(")");
  return out;
}

std::string ExpressionParser::dotted_name() {
  std::string name = expect_name();
  while (skip_symbol(".")) name += '.' + expect_name();
  return name;
}

/// A chain of filters; `first_inline`: the first comes without its '|'.
ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr expression, bool first_inline) {
  Level level(*this, 0);
  while (first_inline || is_symbol("|")) {
    level.more();
    if (!first_inline) next();
    first_inline = false;
    const int start = line();
    std::string name = dotted_name();
    CallArguments arguments = is_symbol("(") ? parse_arguments() : CallArguments{};
    auto filter = std::make_unique<FilterCall>(start, std::move(name), std::move(expression), std::move(arguments));
    if (!filter->function) unknown_.emplace_back(message("filter '", printable(filter->name), "'"), start);
    expression = std::move(filter);
  }
  return expression;
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr expression) {
  const int start = line();
  next();
  const bool negated = skip_name("not");
  std::string name = dotted_name();
  CallArguments arguments;
  const bool operand = is(TokenKind::name) || is(TokenKind::string) || is(TokenKind::integer) || is(TokenKind::real) ||
                       is_symbol("[") || is_symbol("{");
  if (is_symbol("(")) {
    arguments = parse_arguments();
  } else if (operand && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) expected("an operator other than a second 'is'");
    const Level level(*this);
    arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  auto test = std::make_unique<TestCall>(start, std::move(name), std::move(expression), std::move(arguments));
  if (!test->function) unknown_.emplace_back(message("test '", printable(test->name), "'"), start);
  if (!negated) return test;
  return std::make_unique<Unary>(start, UnaryKind::not_, std::move(test));
}

}  // namespace bantam::inline v0::jinja
