// The syntax tree: expressions that give values and statements that write output.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/functions.hpp"
#include "text/jinja/run.hpp"

namespace bantam::inline v0::jinja {

struct Expression {
  explicit Expression(int l) : line(l) {}
  virtual ~Expression() = default;
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;
  /// Call through evaluate(), which counts steps and depth.
  [[nodiscard]] virtual Value value(Run& run) const = 0;

  int line;
};
using ExpressionPtr = std::unique_ptr<const Expression>;

[[nodiscard]] Value evaluate(Run& run, const Expression& expression);

struct Constant final : Expression {
  Constant(int l, Value v) : Expression(l), constant(std::move(v)) {}
  Value constant;
  Value value(Run&) const override { return constant; }
};

struct Name final : Expression {
  Name(int l, std::string n) : Expression(l), name(std::move(n)) {}
  std::string name;
  Value value(Run& run) const override { return run.lookup(name); }
};

/// [a, b] or (a, b).
struct Sequence final : Expression {
  Sequence(int l, ListKind k, std::vector<ExpressionPtr> i) : Expression(l), kind(k), items(std::move(i)) {}
  ListKind kind;
  std::vector<ExpressionPtr> items;
  Value value(Run& run) const override;
};

struct DictLiteral final : Expression {
  using Expression::Expression;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
  Value value(Run& run) const override;
};

/// first op second op third, from left to right: a chain is one node, so a long sum nests nothing.
struct Chain final : Expression {
  Chain(int l, ExpressionPtr f) : Expression(l), first(std::move(f)) {}
  ExpressionPtr first;
  std::vector<std::pair<std::string, ExpressionPtr>> rest;
  Value value(Run& run) const override;
};

/// a < b < c: true where every neighbor pair is.
struct Comparison final : Expression {
  Comparison(int l, ExpressionPtr f) : Expression(l), first(std::move(f)) {}
  ExpressionPtr first;
  std::vector<std::pair<std::string, ExpressionPtr>> rest;
  Value value(Run& run) const override;
};

/// a and b and c, or with `or`.
struct Logic final : Expression {
  Logic(int l, bool a, std::vector<ExpressionPtr> i) : Expression(l), all(a), items(std::move(i)) {}
  bool all;
  std::vector<ExpressionPtr> items;
  Value value(Run& run) const override;
};

/// a ~ b ~ c
struct Concatenation final : Expression {
  Concatenation(int l, std::vector<ExpressionPtr> i) : Expression(l), items(std::move(i)) {}
  std::vector<ExpressionPtr> items;
  Value value(Run& run) const override;
};

enum class UnaryKind : std::uint8_t { not_, minus, plus };
struct Unary final : Expression {
  Unary(int l, UnaryKind k, ExpressionPtr o) : Expression(l), kind(k), operand(std::move(o)) {}
  UnaryKind kind;
  ExpressionPtr operand;
  Value value(Run& run) const override;
};

/// yes if condition else no; without `no` undefined.
struct Conditional final : Expression {
  Conditional(int l, ExpressionPtr c, ExpressionPtr y, ExpressionPtr n)
      : Expression(l), condition(std::move(c)), yes(std::move(y)), no(std::move(n)) {}
  ExpressionPtr condition, yes, no;
  Value value(Run& run) const override;
};

struct Attribute final : Expression {
  Attribute(int l, ExpressionPtr o, std::string n) : Expression(l), object(std::move(o)), name(std::move(n)) {}
  ExpressionPtr object;
  std::string name;
  Value value(Run& run) const override;
};

struct Item final : Expression {
  Item(int l, ExpressionPtr o, ExpressionPtr i) : Expression(l), object(std::move(o)), index(std::move(i)) {}
  ExpressionPtr object, index;
  Value value(Run& run) const override;
};

struct Slice final : Expression {
  Slice(int l, ExpressionPtr o) : Expression(l), object(std::move(o)) {}
  ExpressionPtr object, start, stop, step;
  Value value(Run& run) const override;
};

/// What stands between the parentheses of a call.
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional, more_named;  ///< *args and **kwargs
  [[nodiscard]] Arguments evaluate(Run& run) const;
};

struct Call final : Expression {
  Call(int l, ExpressionPtr c, CallArguments a) : Expression(l), callee(std::move(c)), arguments(std::move(a)) {}
  ExpressionPtr callee;
  CallArguments arguments;
  Value value(Run& run) const override { return value_with(run, nullptr); }
  /// `caller`: the block of a {% call %}, or nullptr.
  [[nodiscard]] Value value_with(Run& run, Object* caller) const;
};

struct FilterCall final : Expression {
  FilterCall(int l, std::string n, ExpressionPtr s, CallArguments a)
      : Expression(l), name(std::move(n)), function(find_filter(name)), subject(std::move(s)), arguments(std::move(a)) {}
  std::string name;
  Filter function;
  ExpressionPtr subject;  ///< nullptr at the start of a block's filters: the block's text
  CallArguments arguments;
  Value value(Run& run) const override;
  [[nodiscard]] Value apply(Run& run, const Value& text) const;
};

struct TestCall final : Expression {
  TestCall(int l, std::string n, ExpressionPtr s, CallArguments a)
      : Expression(l), name(std::move(n)), function(find_test(name)), subject(std::move(s)), arguments(std::move(a)) {}
  std::string name;
  Test function;
  ExpressionPtr subject;
  CallArguments arguments;
  Value value(Run& run) const override;
};

// ---- statements

/// What happens after a statement.
enum class Flow : std::uint8_t { next, break_, continue_ };

struct Statement {
  explicit Statement(int l) : line(l) {}
  virtual ~Statement() = default;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  [[nodiscard]] virtual Flow run(Run& run) const = 0;

  int line;
};
using StatementPtr = std::unique_ptr<const Statement>;
using Body = std::vector<StatementPtr>;

[[nodiscard]] Flow execute(Run& run, const Body& body);

/// Where a value goes: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  std::string name, attribute;
  std::vector<Target> parts;
  bool tuple = false;
  int line = 1;
  void assign(Run& run, Value value) const;
};

struct Data final : Statement {
  Data(int l, std::string t) : Statement(l), text(std::move(t)) {}
  std::string text;
  Flow run(Run& run) const override;
};

struct Print final : Statement {
  Print(int l, ExpressionPtr e) : Statement(l), expression(std::move(e)) {}
  ExpressionPtr expression;
  Flow run(Run& run) const override;
};

struct If final : Statement {
  using Statement::Statement;
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
  Flow run(Run& run) const override;
};

struct For final : Statement {
  using Statement::Statement;
  Target target;
  ExpressionPtr iterated, condition;
  bool recursive = false;
  Body body, otherwise;
  Flow run(Run& run) const override;
  void loop(Run& run, const Value& over, Scope* around, int depth) const;
};

struct Jump final : Statement {
  Jump(int l, Flow f) : Statement(l), flow(f) {}
  Flow flow;
  Flow run(Run&) const override { return flow; }
};

struct Set final : Statement {
  using Statement::Statement;
  Target target;
  ExpressionPtr expression;
  Flow run(Run& run) const override;
};

/// {% set x %}...{% endset %}, {% filter f %}...{% endfilter %}: a block's text, filtered.
struct TextBlock final : Statement {
  using Statement::Statement;
  std::unique_ptr<const Target> target;  ///< nullptr: written
  ExpressionPtr filters;                 ///< or nullptr
  Body body;
  Flow run(Run& run) const override;
};

/// {% with a = 1 %}, {% generation %}, {% block %}: statements in a scope of their own.
struct Scoped final : Statement {
  using Statement::Statement;
  std::vector<std::pair<Target, ExpressionPtr>> values;
  bool outermost = false;  ///< a block sees the template's variables, not those of a loop around it
  Body body;
  Flow run(Run& run) const override;
};

/// The parameters and body of a macro or of a {% call %} block.
struct MacroCode {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  ///< of the last parameters
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  Body body;
};

struct Macro final : Statement {
  using Statement::Statement;
  MacroCode code;
  Flow run(Run& run) const override;
};

struct CallBlock final : Statement {
  using Statement::Statement;
  MacroCode code;
  std::unique_ptr<const Call> call;
  Flow run(Run& run) const override;
};

/// {% include %} and its kin: they need a second template, which a chat template does not have.
struct Load final : Statement {
  Load(int l, std::string t) : Statement(l), tag(std::move(t)) {}
  std::string tag;
  Flow run(Run& run) const override;
};

}  // namespace bantam::inline v0::jinja
