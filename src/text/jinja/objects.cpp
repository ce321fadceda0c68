// Values with identity: what they do when a template touches them.
#include "text/jinja/objects.hpp"

#include "text/jinja/represent.hpp"

namespace bantam::inline v0::jinja {

void Namespace::set(Run& run, std::string_view name, Value value) {
  const auto found = index.find(name);
  if (found != index.end()) {
    items[found->second].second = std::move(value);
    return;
  }
  // Two map nodes and the name twice.
  run.allocate(2 * name.size() + 128);
  index.emplace(std::string(name), items.size());
  items.emplace_back(std::string(name), std::move(value));
}

std::optional<Value> Namespace::attribute(Run&, std::string_view name) {
  const auto found = index.find(name);
  if (found == index.end()) return {};
  return items[found->second].second;
}

std::string Namespace::represent(Run& run) {
  DictBuilder dict(run);
  for (const auto& [name, value] : items) dict.set(run.text(name), value);
  return message("<Namespace ", jinja::represent(run, dict.take()), ">");
}

ListPtr Generator::iterate(Run& run) {
  if (!produce) return run.list({}).as<ListPtr>();
  // Taken out first: a generator that reaches itself must not run twice.
  const auto once = std::exchange(produce, nullptr);
  return run.list(once(run)).as<ListPtr>();
}

Value Joiner::call(Run& run, Arguments& arguments) {
  const Parameters none(run, "joiner", arguments, {});
  if (used) return separator;
  used = true;
  return run.text("");
}

std::optional<Value> Cycler::attribute(Run& run, std::string_view name) {
  if (name == "current") return items[at];
  if (name == "items") return run.list(items, ListKind::tuple);
  if (name != "next" && name != "reset") return {};
  const auto self = Value(static_cast<Object*>(this));
  const Method next = [](Run& r, const Value& cycler, Arguments& arguments) -> Value {
    const Parameters none(r, "next", arguments, {});
    auto* c = cycler.object<Cycler>();
    Value value = c->items[c->at];
    c->at = (c->at + 1) % c->items.size();
    return value;
  };
  const Method reset = [](Run& r, const Value& cycler, Arguments& arguments) -> Value {
    const Parameters none(r, "reset", arguments, {});
    cycler.object<Cycler>()->at = 0;
    return None{};
  };
  return Value(static_cast<Object*>(run.make<BoundMethod>(self, name == "next" ? next : reset)));
}

}  // namespace bantam::inline v0::jinja
