// Expressions at work.
#include "text/jinja/nodes.hpp"
#include "text/jinja/objects.hpp"
#include "text/jinja/operate.hpp"
#include "text/jinja/represent.hpp"

namespace bantam::inline v0::jinja {

Value evaluate(Run& run, const Expression& expression) {
  const Depth depth(run);
  run.step();
  run.line = expression.line;
  return expression.value(run);
}

Value Sequence::value(Run& run) const {
  std::vector<Value> values;
  values.reserve(items.size());
  for (const auto& item : items) values.push_back(evaluate(run, *item));
  return run.list(std::move(values), kind);
}

Value DictLiteral::value(Run& run) const {
  DictBuilder dict(run);
  for (const auto& [key, mapped] : items) {
    const Value name = evaluate(run, *key);
    dict.set(name, evaluate(run, *mapped));
  }
  return dict.take();
}

Value Chain::value(Run& run) const {
  Value left = evaluate(run, *first);
  for (const auto& [op, operand] : rest) {
    const Value right = evaluate(run, *operand);
    run.line = line;
    left = arithmetic(run, op, left, right);
  }
  return left;
}

Value Comparison::value(Run& run) const {
  Value left = evaluate(run, *first);
  for (const auto& [op, operand] : rest) {
    Value right = evaluate(run, *operand);
    run.line = line;
    if (!compare(run, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Logic::value(Run& run) const {
  Value last;
  for (const auto& item : items) {
    last = evaluate(run, *item);
    if (truth(run, last) != all) return last;
  }
  return last;
}

Value Concatenation::value(Run& run) const {
  Builder out(run);
  for (const auto& item : items) out.add(to_text(run, evaluate(run, *item)));
  return run.text(out.take());
}

Value Unary::value(Run& run) const {
  Value v = evaluate(run, *operand);
  if (kind == UnaryKind::not_) return !truth(run, v);
  run.line = line;
  // +x is x, except that True becomes 1 and what has no sign fails.
  const Value negative = negate(run, v);
  if (kind == UnaryKind::minus) return negative;
  if (v.is<double>()) return v;
  return *v.integer();
}

Value Conditional::value(Run& run) const {
  if (truth(run, evaluate(run, *condition))) return evaluate(run, *yes);
  if (no) return evaluate(run, *no);
  return run.undefined("the inline if-expression is false and has no else");
}

Value Attribute::value(Run& run) const {
  const Value v = evaluate(run, *object);
  run.line = line;
  return get_attribute(run, v, name);
}

Value Item::value(Run& run) const {
  const Value v = evaluate(run, *object);
  const Value at = evaluate(run, *index);
  run.line = line;
  return get_item(run, v, at);
}

Value Slice::value(Run& run) const {
  const Value v = evaluate(run, *object);
  const auto bound = [&](const ExpressionPtr& e) { return e ? evaluate(run, *e) : Value(None{}); };
  const Value from = bound(start), to = bound(stop), by = bound(step);
  run.line = line;
  return slice(run, v, from, to, by);
}

Arguments CallArguments::evaluate(Run& run) const {
  Arguments out;
  out.positional.reserve(positional.size());
  for (const auto& argument : positional) out.positional.push_back(jinja::evaluate(run, *argument));
  for (const auto& [name, argument] : named) out.named.emplace_back(name, jinja::evaluate(run, *argument));
  if (more_positional) {
    const ListPtr list = elements(run, jinja::evaluate(run, *more_positional));
    run.step(list->items.size());
    out.positional.insert(out.positional.end(), list->items.begin(), list->items.end());
  }
  if (more_named) {
    const Value dict = jinja::evaluate(run, *more_named);
    if (!dict.is_dict()) run.error("expected a dict behind '**', found a ", dict.type());
    for (const auto& [name, value] : dict.dict().items) {
      if (!name.is_text()) run.error("expected names as keys of a dict behind '**', found a ", name.type());
      out.named.emplace_back(name.text(), value);
    }
  }
  // Matching names with parameters is quadratic: nobody passes more.
  constexpr std::size_t max_named = 256;
  if (out.named.size() > max_named) run.over_limit("expected at most ", max_named, " named arguments, found more");
  for (std::size_t i = 0; i < out.named.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (out.named[i].first == out.named[j].first) run.error("found argument '", printable(out.named[i].first), "' twice");
    }
  }
  return out;
}

Value Call::value_with(Run& run, Object* caller) const {
  // A method is called in place: taking it as a value first would keep its object until the run ends.
  const auto* attribute = dynamic_cast<const Attribute*>(callee.get());
  Value self, function;
  Method method = nullptr;
  if (attribute) {
    self = evaluate(run, *attribute->object);
    run.line = line;
    if (!self.is_undefined() && !self.is_object()) method = find_method(self, attribute->name);
    if (!method) function = get_attribute(run, self, attribute->name);
  } else {
    function = evaluate(run, *callee);
  }
  Arguments values = arguments.evaluate(run);
  if (caller) values.named.emplace_back("caller", Value(caller));
  run.line = line;
  const Depth depth(run);
  run.step();
  if (method) return method(run, self, values);
  return jinja::call(run, function, values);
}

Value FilterCall::apply(Run& run, const Value& text) const {
  Arguments values = arguments.evaluate(run);
  run.line = line;
  if (!function) run.error("found no filter '", printable(name), "'");
  const Value before = subject ? static_cast<const FilterCall&>(*subject).apply(run, text) : text;
  return function(run, before, values);
}

Value FilterCall::value(Run& run) const {
  const Value before = evaluate(run, *subject);
  Arguments values = arguments.evaluate(run);
  run.line = line;
  if (!function) run.error("found no filter '", printable(name), "'");
  return function(run, before, values);
}

Value TestCall::value(Run& run) const {
  const Value tested = evaluate(run, *subject);
  Arguments values = arguments.evaluate(run);
  run.line = line;
  if (!function) run.error("found no test '", printable(name), "'");
  return function(run, tested, values);
}

}  // namespace bantam::inline v0::jinja
