// The `loop` variable: turns, neighbors, cycles and recursion.
#include "text/jinja/loop.hpp"

#include "text/jinja/objects.hpp"
#include "text/jinja/operate.hpp"

namespace bantam::inline v0::jinja {

std::optional<Value> Loop::fetch(Run& run) {
  while (source && at_ < source->items.size()) {
    run.step();
    Value item = source->items[at_++];
    if (!statement.condition) return item;
    const NewScope scope(run, around);
    statement.target.assign(run, item);
    if (truth(run, evaluate(run, *statement.condition))) return item;
  }
  return {};
}

std::optional<Value> Loop::advance(Run& run) {
  std::optional<Value> item;
  if (ahead_.empty()) {
    item = fetch(run);
  } else {
    item = std::move(ahead_.front());
    ahead_.pop_front();
  }
  if (!item) return {};
  ++index;
  previous_ = std::move(current_);
  current_ = *item;
  return item;
}

void Loop::finish() {
  source = nullptr;
  ahead_.clear();
  current_ = previous_ = Value();
  last_changed_.reset();
}

const Value* Loop::peek(Run& run) {
  if (ahead_.empty()) {
    auto item = fetch(run);
    if (!item) return nullptr;
    ahead_.push_back(*std::move(item));
  }
  return &ahead_.front();
}

std::int64_t Loop::length(Run& run) {
  if (source && !statement.condition) return static_cast<std::int64_t>(source->items.size());
  while (auto item = fetch(run)) {
    run.allocate(sizeof(Value));
    ahead_.push_back(*std::move(item));
  }
  return index + static_cast<std::int64_t>(ahead_.size());
}

std::optional<Value> Loop::attribute(Run& run, std::string_view name) {
  if (name == "index") return index;
  if (name == "index0") return index - 1;
  if (name == "first") return index == 1;
  if (name == "last") return peek(run) == nullptr;
  if (name == "length") return length(run);
  if (name == "revindex") return length(run) - index + 1;
  if (name == "revindex0") return length(run) - index;
  if (name == "depth") return std::int64_t{depth0} + 1;
  if (name == "depth0") return std::int64_t{depth0};
  if (name == "previtem") return index > 1 ? previous_ : run.undefined("there is no previous item");
  if (name == "nextitem") {
    const Value* next = peek(run);
    return next ? *next : run.undefined("there is no next item");
  }
  const auto self = Value(static_cast<Object*>(this));
  if (name == "cycle") return Value(static_cast<Object*>(run.make<BoundMethod>(self, &Loop::cycle)));
  if (name == "changed") return Value(static_cast<Object*>(run.make<BoundMethod>(self, &Loop::changed)));
  return {};
}

Value Loop::cycle(Run& run, const Value& self, Arguments& arguments) {
  const auto& items = arguments.positional;
  if (items.empty() || !arguments.named.empty()) run.error("expected items to cycle through, found none");
  return items[static_cast<std::size_t>(self.object<Loop>()->index - 1) % items.size()];
}

Value Loop::changed(Run& run, const Value& self, Arguments& arguments) {
  auto& last = self.object<Loop>()->last_changed_;
  bool same = last && last->size() == arguments.positional.size();
  for (std::size_t i = 0; same && i < last->size(); ++i) same = equals(run, (*last)[i], arguments.positional[i]);
  if (!same) last = std::move(arguments.positional);
  return !same;
}

Value Loop::call(Run& run, Arguments& arguments) {
  const Parameters given(run, "loop", arguments, {"iterable"}, 1);
  if (!statement.recursive) run.error("expected a loop marked 'recursive' to call, found one that is not");
  Capture capture(run);
  statement.loop(run, *given[0], around, depth0 + 1);
  return run.text(std::move(capture.text));
}

std::string Loop::represent(Run& run) {
  Builder out(run);
  out.add("<LoopContext ");
  out.add(message(index));
  out.add('/');
  out.add(message(length(run)));
  out.add('>');
  return out.take();
}

}  // namespace bantam::inline v0::jinja
