// Statements at work.
#include <algorithm>

#include "text/jinja/loop.hpp"
#include "text/jinja/macro.hpp"
#include "text/jinja/nodes.hpp"
#include "text/jinja/objects.hpp"
#include "text/jinja/operate.hpp"
#include "text/jinja/represent.hpp"

namespace bantam::inline v0::jinja {

Flow execute(Run& run, const Body& body) {
  for (const auto& statement : body) {
    const Depth depth(run);
    run.step();
    run.line = statement->line;
    if (const Flow flow = statement->run(run); flow != Flow::next) return flow;
  }
  return Flow::next;
}

void Target::assign(Run& run, Value value) const {
  run.step();
  if (!attribute.empty()) {
    auto* space = run.lookup(name).object<Namespace>();
    if (!space) run.error("expected a namespace to assign '", attribute, "' to, found another value");
    return space->set(run, attribute, std::move(value));
  }
  if (!tuple) return run.assign(name, std::move(value));
  const ListPtr list = elements(run, value);
  if (list->items.size() != parts.size()) {
    run.error("expected ", parts.size(), " values to unpack, found ", list->items.size());
  }
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].assign(run, list->items[i]);
}

Flow Data::run(Run& run) const {
  run.write(text);
  return Flow::next;
}

Flow Print::run(Run& run) const {
  const Value value = evaluate(run, *expression);
  if (value.is_text()) {
    run.write(value.text());
  } else {
    run.write(to_text(run, value));
  }
  return Flow::next;
}

Flow If::run(Run& run) const {
  for (const auto& [condition, body] : branches) {
    if (truth(run, evaluate(run, *condition))) return execute(run, body);
  }
  return execute(run, otherwise);
}

Flow For::run(Run& run) const {
  loop(run, evaluate(run, *iterated), run.scope(), 0);
  return Flow::next;
}

void For::loop(Run& run, const Value& over, Scope* around, int depth) const {
  run.line = line;
  auto* state = run.make<Loop>(*this, elements(run, over), around, depth);
  bool completed = false;
  while (const auto item = state->advance(run)) {
    const NewScope scope(run, around);
    run.assign("loop", Value(static_cast<Object*>(state)));
    target.assign(run, *item);
    const Flow flow = execute(run, body);
    completed = completed || flow == Flow::next;
    if (flow == Flow::break_) break;
  }
  // Not Python's for/else: Jinja's else is for loops without a turn that came to its end.
  if (!completed && !otherwise.empty()) {
    const NewScope scope(run, around);
    (void)execute(run, otherwise);
  }
  state->finish();
}

Flow Set::run(Run& run) const {
  target.assign(run, evaluate(run, *expression));
  return Flow::next;
}

Flow TextBlock::run(Run& run) const {
  Value text;
  {
    Capture capture(run);
    const NewScope scope(run);
    (void)execute(run, body);
    text = run.text(std::move(capture.text));
  }
  if (filters) text = static_cast<const FilterCall&>(*filters).apply(run, text);
  if (target) {
    target->assign(run, std::move(text));
  } else {
    run.write(to_text(run, text));
  }
  return Flow::next;
}

Flow Scoped::run(Run& run) const {
  std::vector<Value> evaluated;
  evaluated.reserve(values.size());
  for (const auto& [target, expression] : values) evaluated.push_back(evaluate(run, *expression));
  Scope* around = run.scope();
  while (outermost && around->parent) around = around->parent;
  const NewScope scope(run, around);
  for (std::size_t i = 0; i < values.size(); ++i) values[i].first.assign(run, std::move(evaluated[i]));
  return execute(run, body);
}

Flow Macro::run(Run& run) const {
  run.capture_scope();
  run.assign(code.name, Value(static_cast<Object*>(run.make<MacroValue>(code, run.scope()))));
  return Flow::next;
}

Flow CallBlock::run(Run& run) const {
  run.capture_scope();
  auto* caller = run.make<MacroValue>(code, run.scope());
  run.write(to_text(run, call->value_with(run, caller)));
  return Flow::next;
}

Flow Load::run(Run& run) const {
  run.over_limit("found '", tag, "', but a chat template has no other templates to load");
}

}  // namespace bantam::inline v0::jinja
