// The grammar of statements: one function a tag.
#include "text/jinja/parser.hpp"

#include <initializer_list>

namespace bantam::inline v0::jinja {

namespace {

using Ends = std::initializer_list<std::string_view>;

class StatementParser : ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Body run() {
    Body body = statements({});
    refuse_unknown(0);
    return body;
  }

 private:
  /// Fails for the first unknown filter or test since `known`.
  void refuse_unknown(std::size_t known) const {
    if (unknown_.size() > known) error_at(unknown_[known].second, "found no ", unknown_[known].first);
  }

  void end_tag() {
    if (!is(TokenKind::block_end)) expected("'%}'");
    next();
  }

  /// Statements up to one of the end tags, whose name is then the current token; without end tags, to the very end.
  Body statements(Ends ends) {
    Body body;
    while (!is(TokenKind::end)) {
      const int start = line();
      if (is(TokenKind::data)) {
        body.push_back(std::make_unique<Data>(start, next().text));
      } else if (is(TokenKind::variable_begin)) {
        next();
        body.push_back(std::make_unique<Print>(start, parse_tuple()));
        if (!is(TokenKind::variable_end)) expected("'}}'");
        next();
      } else {
        next();
        for (const std::string_view end : ends) {
          if (is_name(end)) return body;
        }
        statement(body);
        end_tag();
      }
    }
    if (ends.size() > 0) expected(message("{% ", *(ends.end() - 1), " %}"));
    return body;
  }

  /// The body behind a tag, up to and without the name of its end tag.
  Body block(Ends ends) {
    const Level level(*this);
    skip_symbol(":");
    end_tag();
    return statements(ends);
  }
  /// A body with names of its own.
  Body scoped_block(Ends ends) {
    const std::size_t known = unknown_.size();
    Body body = block(ends);
    refuse_unknown(known);
    return body;
  }

  void statement(Body& body) {
    if (!is(TokenKind::name)) expected("a tag's name");
    const std::string tag = token().text;
    const int start = line();
    if (tag == "print") {
      next();
      while (!is(TokenKind::block_end)) {
        body.push_back(std::make_unique<Print>(start, parse_expression()));
        if (!is(TokenKind::block_end)) expect_symbol(",");
      }
      return;
    }
    body.push_back(one_statement(tag, start));
  }

  StatementPtr one_statement(const std::string& tag, int start) {
    if (tag == "if") return parse_if(start);
    if (tag == "for") return parse_for(start);
    if (tag == "set") return parse_set(start);
    if (tag == "macro") return parse_macro(start);
    if (tag == "call") return parse_call(start);
    if (tag == "filter") return parse_filter_block(start);
    if (tag == "with") return parse_with(start);
    if (tag == "block") return parse_block(start);
    if (tag == "generation") {
      next();
      auto scoped = std::make_unique<Scoped>(start);
      scoped->body = scoped_block({"endgeneration"});
      next();
      return scoped;
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) expected("'break' and 'continue' only in a loop");
      next();
      return std::make_unique<Jump>(start, tag == "break" ? Flow::break_ : Flow::continue_);
    }
    if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") {
      next();
      while (!is(TokenKind::block_end) && !is(TokenKind::end)) next();
      return std::make_unique<Load>(start, tag);
    }
    if (tag == "autoescape") fail(Errc::unsupported, place_, ": line ", start, ": found an autoescape block");
    expected("a known tag");
  }

  StatementPtr parse_if(int start) {
    auto out = std::make_unique<If>(start);
    const std::size_t known = unknown_.size();
    do {
      next();
      ExpressionPtr condition = parse_tuple(false);
      Body body = block({"elif", "else", "endif"});
      out->branches.emplace_back(std::move(condition), std::move(body));
    } while (is_name("elif"));
    if (next().text == "else") {
      out->otherwise = block({"endif"});
      next();
    }
    unknown_.resize(known);
    return out;
  }

  StatementPtr parse_for(int start) {
    next();
    auto out = std::make_unique<For>(start);
    out->target = parse_target();
    if (mentions(out->target, "loop")) expected("a loop's target other than 'loop'");
    if (!skip_name("in")) expected("'in'");
    out->iterated = parse_tuple(false);
    const std::size_t known = unknown_.size();
    if (skip_name("if")) out->condition = parse_expression();
    refuse_unknown(known);
    out->recursive = skip_name("recursive");
    ++loops_;
    out->body = scoped_block({"endfor", "else"});
    --loops_;
    if (next().text == "else") {
      out->otherwise = scoped_block({"endfor"});
      next();
    }
    return out;
  }

  StatementPtr parse_set(int start) {
    next();
    Target target;
    if (ahead().kind == TokenKind::symbol && ahead().text == ".") {
      target.line = line();
      target.name = expect_name();
      next();
      target.attribute = expect_name();
    } else {
      target = parse_target();
    }
    if (loops_ > 0 && mentions(target, "loop")) expected("a variable other than 'loop' in a loop");
    if (skip_symbol("=")) {
      auto out = std::make_unique<Set>(start);
      out->target = std::move(target);
      out->expression = parse_tuple();
      return out;
    }
    auto out = std::make_unique<TextBlock>(start);
    if (is_symbol("|")) out->filters = parse_filters(nullptr);
    out->body = scoped_function_block({"endset"});
    next();
    out->target = std::make_unique<const Target>(std::move(target));
    return out;
  }

  StatementPtr parse_filter_block(int start) {
    next();
    auto out = std::make_unique<TextBlock>(start);
    out->filters = parse_filters(nullptr, true);
    out->body = scoped_function_block({"endfilter"});
    next();
    return out;
  }

  StatementPtr parse_with(int start) {
    next();
    auto out = std::make_unique<Scoped>(start);
    while (!is(TokenKind::block_end)) {
      if (!out->values.empty()) expect_symbol(",");
      Target target = parse_target();
      expect_symbol("=");
      out->values.emplace_back(std::move(target), parse_expression());
    }
    out->body = scoped_block({"endwith"});
    next();
    return out;
  }

  StatementPtr parse_block(int start) {
    next();
    auto out = std::make_unique<Scoped>(start);
    const std::string name = expect_name();
    out->outermost = !skip_name("scoped");
    skip_name("required");
    out->body = scoped_function_block({"endblock"});
    next();
    skip_name(name);
    return out;
  }

  /// A body whose text is gathered: a loop around it cannot be left from inside.
  Body scoped_function_block(Ends ends) {
    const int loops = std::exchange(loops_, 0);
    Body body = scoped_block(ends);
    loops_ = loops;
    return body;
  }

  void parse_signature(MacroCode& code) {
    expect_symbol("(");
    while (!is_symbol(")")) {
      if (!code.parameters.empty()) expect_symbol(",");
      code.parameters.push_back(parse_variable());
      if (skip_symbol("=")) {
        code.defaults.push_back(parse_expression());
      } else if (!code.defaults.empty()) {
        expected("a default: parameters before this one have them");
      }
    }
    expect_symbol(")");
  }

  /// A macro's body, noting which of the special names it mentions.
  void parse_code(MacroCode& code, std::string_view end) {
    const bool caller = std::exchange(saw_caller_, false);
    const bool varargs = std::exchange(saw_varargs_, false);
    const bool kwargs = std::exchange(saw_kwargs_, false);
    code.body = scoped_function_block({end});
    next();
    code.uses_caller = saw_caller_;
    code.uses_varargs = saw_varargs_;
    code.uses_kwargs = saw_kwargs_;
    saw_caller_ |= caller;
    saw_varargs_ |= varargs;
    saw_kwargs_ |= kwargs;
  }

  StatementPtr parse_macro(int start) {
    next();
    auto out = std::make_unique<Macro>(start);
    out->code.name = parse_variable();
    parse_signature(out->code);
    parse_code(out->code, "endmacro");
    return out;
  }

  StatementPtr parse_call(int start) {
    next();
    auto out = std::make_unique<CallBlock>(start);
    out->code.name = "caller";
    if (is_symbol("(")) parse_signature(out->code);
    ExpressionPtr call = parse_expression();
    if (!dynamic_cast<const Call*>(call.get())) error_at(start, "expected a call, found another expression");
    out->call.reset(static_cast<const Call*>(call.release()));
    parse_code(out->code, "endcall");
    return out;
  }

  /// A name that may be assigned to.
  std::string parse_variable() {
    for (const std::string_view word : {"true", "false", "none", "True", "False", "None"}) {
      if (is_name(word)) expected("a variable's name");
    }
    return expect_name();
  }

  Target parse_one_target() {
    if (!skip_symbol("(")) {
      Target out;
      out.line = line();
      out.name = parse_variable();
      return out;
    }
    const Level level(*this);
    Target out = parse_target();
    expect_symbol(")");
    return out;
  }

  /// A name, or several with commas between them.
  Target parse_target() {
    Target out;
    out.line = line();
    while (!is(TokenKind::block_end) && !is_symbol(")") && !is_symbol("=")) {
      out.parts.push_back(parse_one_target());
      if (!skip_symbol(",")) break;
      out.tuple = true;
    }
    if (out.parts.empty()) expected("a variable's name");
    if (out.tuple) return out;
    Target only = std::move(out.parts[0]);
    return only;
  }

  static bool mentions(const Target& target, std::string_view name) {
    if (target.name == name && target.attribute.empty()) return true;
    for (const Target& part : target.parts) {
      if (mentions(part, name)) return true;
    }
    return false;
  }

  int loops_ = 0;
};

}  // namespace

Body parse(std::string_view source, const std::string& place) {
  return StatementParser(tokenize(source, place), place).run();
}

}  // namespace bantam::inline v0::jinja
