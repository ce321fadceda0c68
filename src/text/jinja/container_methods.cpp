// Methods of dict, list, tuple, range and float.
#include <algorithm>
#include <cmath>

#include "text/jinja/functions.hpp"

namespace bantam::inline v0::jinja {

namespace {

Value view(Run& run, const Value& self, Arguments& arguments, ListKind kind) {
  const Parameters none(run, "the method", arguments, {});
  const auto& items = self.dict().items;
  run.step(items.size());
  std::vector<Value> out;
  out.reserve(items.size());
  for (const auto& [key, value] : items) {
    if (kind == ListKind::items) {
      out.push_back(run.list({key, value}, ListKind::tuple));
    } else {
      out.push_back(kind == ListKind::keys ? key : value);
    }
  }
  return run.list(std::move(out), kind);
}

template <ListKind kind>
Value view_method(Run& run, const Value& self, Arguments& arguments) {
  return view(run, self, arguments, kind);
}

Value get_method(Run& run, const Value& self, Arguments& arguments) {
  if (!arguments.named.empty()) run.error("'get' takes no named arguments");
  const Parameters given(run, "get", arguments, {"key", "default"}, 1);
  if (const Value* found = self.dict().find_spelled(spell_key(run, *given[0]))) return *found;
  return given[1] ? *given[1] : Value(None{});
}

/// Nothing can change a container here, so it is its own copy.
Value copy_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters none(run, "copy", arguments, {});
  return self;
}

Value index_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, "index", arguments, {"value", "start", "stop"}, 1);
  const auto& items = self.list().items;
  const auto size = static_cast<std::int64_t>(items.size());
  const auto place = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? std::max(i, -size) + size : i, 0, size); };
  const std::int64_t stop = place(given.integer(2, size));
  for (std::int64_t i = place(given.integer(1, 0)); i < stop; ++i) {
    if (equals(run, items[static_cast<std::size_t>(i)], *given[0])) return i;
  }
  run.error("expected a value in a ", self.type(), ", found it nowhere");
}

Value count_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, "count", arguments, {"value"}, 1);
  std::int64_t count = 0;
  for (const Value& item : self.list().items) count += equals(run, item, *given[0]) ? 1 : 0;
  return count;
}

Value is_integer_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters none(run, "is_integer", arguments, {});
  const double value = self.as<double>();
  return std::isfinite(value) && value == std::floor(value);
}

constexpr Entry<Method> dict_methods[] = {
    {"get", get_method},
    {"items", view_method<ListKind::items>},
    {"keys", view_method<ListKind::keys>},
    {"values", view_method<ListKind::values>},
    {"copy", copy_method},
};
constexpr Entry<Method> list_methods[] = {{"index", index_method}, {"count", count_method}, {"copy", copy_method}};

}  // namespace

Method find_container_method(const Value& value, std::string_view name) {
  if (value.is_dict()) return find_entry(dict_methods, name);
  if (value.is<double>() && name == "is_integer") return is_integer_method;
  if (!value.is_list()) return nullptr;
  const ListKind kind = value.list().kind;
  if (kind == ListKind::keys || kind == ListKind::values || kind == ListKind::items) return nullptr;
  if (name == "copy" && kind != ListKind::list) return nullptr;
  return find_entry(list_methods, name);
}

}  // namespace bantam::inline v0::jinja
