// map, select and their kin: a filter or test over every element.
#include "text/jinja/objects.hpp"

namespace bantam::inline v0::jinja {

namespace {

std::string text_of(Run& run, const Value& value, std::string_view what) {
  if (!value.is_text()) run.error("expected the name of a ", what, ", found a ", value.type());
  return value.text();
}

std::vector<Value> map_attribute(Run& run, const Value& subject, Arguments arguments) {
  const Value path = *arguments.take("attribute");
  const auto otherwise = arguments.take("default");
  if (!arguments.named.empty()) run.error("'map' has no argument '", printable(arguments.named.front().first), "'");
  std::vector<Value> out;
  for (const ListPtr all = elements(run, subject); const Value& item : all->items) {
    out.push_back(get_path(run, item, path, otherwise && !otherwise->is_none() ? &*otherwise : nullptr));
  }
  return out;
}

std::vector<Value> map_filter_over(Run& run, const Value& subject, Arguments arguments) {
  if (arguments.positional.empty()) run.error("expected a filter's name or an attribute to map, found neither");
  const std::string name = text_of(run, arguments.positional.front(), "filter");
  arguments.positional.erase(arguments.positional.begin());
  const Filter filter = find_filter(name);
  if (!filter) run.error("found no filter '", printable(name), "'");
  std::vector<Value> out;
  for (const ListPtr all = elements(run, subject); const Value& item : all->items) {
    const Depth depth(run);
    run.step(1 + arguments.positional.size() + arguments.named.size());
    Arguments copy = arguments;
    out.push_back(filter(run, item, copy));
  }
  return out;
}

Value map_filter(Run& run, const Value& subject, Arguments& arguments) {
  return generator(run, [subject, arguments](Run& r) {
    if (!truth(r, subject)) return std::vector<Value>{};
    bool by_attribute = false;
    for (const auto& [name, value] : arguments.named) by_attribute = by_attribute || name == "attribute";
    if (arguments.positional.empty() && by_attribute) return map_attribute(r, subject, arguments);
    return map_filter_over(r, subject, arguments);
  });
}

/// The elements whose test (or truth) is `wanted`; with `attribute` the first argument says what of them is tested.
std::vector<Value> choose(Run& run, const Value& subject, Arguments arguments, bool attribute, bool wanted) {
  if (!truth(run, subject)) return {};
  auto& rest = arguments.positional;
  Value path = None{};
  if (attribute) {
    if (rest.empty()) run.error("expected an attribute's name, found none");
    path = rest.front();
    rest.erase(rest.begin());
  }
  Test test = nullptr;
  if (!rest.empty()) {
    const std::string name = text_of(run, rest.front(), "test");
    rest.erase(rest.begin());
    test = find_test(name);
    if (!test) run.error("found no test '", printable(name), "'");
  }
  std::vector<Value> out;
  for (const ListPtr all = elements(run, subject); const Value& item : all->items) {
    const Depth depth(run);
    run.step(1 + rest.size() + arguments.named.size());
    const Value tested = get_path(run, item, path);
    Arguments copy = arguments;
    if ((test ? test(run, tested, copy) : truth(run, tested)) == wanted) out.push_back(item);
  }
  return out;
}

template <bool attribute, bool wanted>
Value choose_filter(Run& run, const Value& subject, Arguments& arguments) {
  return generator(run, [subject, arguments](Run& r) { return choose(r, subject, arguments, attribute, wanted); });
}

/// The attribute of a name, never an item.
Value attr_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "attr", arguments, {"name"}, 1);
  const std::string name = given.text(0, {});
  if (subject.is_undefined()) run.undefined_error(subject);
  if (subject.is_dict() && !find_method(subject, name)) {
    return run.undefined(message("'dict object' has no attribute '", printable(name), "'"));
  }
  return get_attribute(run, subject, name);
}

constexpr Entry<Filter> selection_filters[] = {
    {"map", map_filter},
    {"select", choose_filter<false, true>},
    {"reject", choose_filter<false, false>},
    {"selectattr", choose_filter<true, true>},
    {"rejectattr", choose_filter<true, false>},
    {"attr", attr_filter},
};

}  // namespace

Filter find_selection_filter(std::string_view name) { return find_entry(selection_filters, name); }

}  // namespace bantam::inline v0::jinja
