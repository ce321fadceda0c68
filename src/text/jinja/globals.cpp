// The functions that every template finds: Jinja's globals and those that Hugging Face adds.
#include "text/jinja/objects.hpp"
#include "text/jinja/represent.hpp"

namespace bantam::inline v0::jinja {

namespace {

/// The number of elements of a range, computed without overflow.
std::uint64_t range_size(std::int64_t start, std::int64_t stop, std::int64_t step) {
  const auto distance = [](std::int64_t from, std::int64_t to) { return static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from); };
  if (step > 0) return start < stop ? (distance(start, stop) - 1) / static_cast<std::uint64_t>(step) + 1 : 0;
  const std::uint64_t width = std::uint64_t{0} - static_cast<std::uint64_t>(step);
  return stop < start ? (distance(stop, start) - 1) / width + 1 : 0;
}

Value range(Run& run, Arguments& arguments) {
  const bool one = arguments.positional.size() == 1;
  const Parameters given(run, "range", arguments, {"start", "stop", "step"}, 1);
  const std::int64_t start = one ? 0 : given.integer(0, 0);
  const std::int64_t stop = one ? given.integer(0, 0) : given.integer(1, 0);
  const std::int64_t step = given.integer(2, 1);
  if (step == 0) run.error("expected a step other than zero");
  const std::uint64_t size = range_size(start, stop, step);
  if (size > static_cast<std::uint64_t>(max_range)) run.error("expected a range of at most ", max_range, " elements, found ", size);
  run.step(size);
  std::vector<Value> items;
  items.reserve(size);
  // Unsigned: i * step alone may leave 64 bits although every element fits.
  for (std::uint64_t i = 0; i < size; ++i) {
    items.emplace_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + i * static_cast<std::uint64_t>(step)));
  }
  auto made = std::make_shared<List>(*run.list(std::move(items), ListKind::range).as<ListPtr>());
  made->start = start;
  made->stop = stop;
  made->step = step;
  return Value(ListPtr(std::move(made)));
}

/// Calls set(name, value) for what dict(...) and namespace(...) were given.
template <class F>
void each_entry(Run& run, std::string_view function, Arguments& arguments, F&& set) {
  if (arguments.positional.size() > 1) run.error("expected at most one argument of '", function, "' without a name");
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional.front();
    if (from.is_dict()) {
      for (const auto& [key, value] : from.dict().items) set(key, value);
    } else {
      for (const ListPtr all = elements(run, from); const Value& item : all->items) {
        const ListPtr pair = elements(run, item);
        if (pair->items.size() != 2) run.error("expected pairs for '", function, "', found ", pair->items.size(), " values");
        set(pair->items[0], pair->items[1]);
      }
    }
  }
  for (auto& [name, value] : arguments.named) set(run.text(name), value);
}

Value dict(Run& run, Arguments& arguments) {
  DictBuilder out(run);
  each_entry(run, "dict", arguments, [&](const Value& key, const Value& value) { out.set(key, value); });
  return out.take();
}

Value make_namespace(Run& run, Arguments& arguments) {
  auto* out = run.make<Namespace>();
  each_entry(run, "namespace", arguments, [&](const Value& key, const Value& value) {
    if (!key.is_text()) run.error("expected names in a namespace, found a ", key.type());
    out->set(run, key.text(), value);
  });
  return Value(static_cast<Object*>(out));
}

Value joiner(Run& run, Arguments& arguments) {
  const Parameters given(run, "joiner", arguments, {"sep"});
  return Value(static_cast<Object*>(run.make<Joiner>(given[0] ? *given[0] : run.text(", "))));
}

Value cycler(Run& run, Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) run.error("expected items to cycle through, found none");
  run.allocate(arguments.positional.size() * sizeof(Value));
  return Value(static_cast<Object*>(run.make<Cycler>(std::move(arguments.positional))));
}

/// How a template refuses a conversation.
Value raise_exception(Run& run, Arguments& arguments) {
  const Parameters given(run, "raise_exception", arguments, {"message"}, 1);
  // Long enough for any sentence, short enough for one line.
  constexpr std::size_t longest = 500;
  run.error("the template refuses: ", printable(to_text(run, *given[0]), longest));
}

Value strftime_now(Run& run, Arguments& arguments) {
  const Parameters given(run, "strftime_now", arguments, {"format"}, 1);
  return run.text(format_time(run, given.text(0, {})));
}

constexpr Entry<Function::Body> globals[] = {
    {"range", range},
    {"dict", dict},
    {"namespace", make_namespace},
    {"joiner", joiner},
    {"cycler", cycler},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

Object* make_global(Run& run, std::string_view name) {
  for (const auto& entry : globals) {
    if (entry.name == name) return run.make<Function>(entry.name, entry.function);
  }
  return nullptr;
}

}  // namespace bantam::inline v0::jinja
