// The parts of values that need no run: kinds, names, depth, lookups.
#include "text/jinja/value.hpp"

#include <array>

namespace bantam::inline v0::jinja {

std::optional<std::int64_t> Value::integer() const {
  if (is<std::int64_t>()) return as<std::int64_t>();
  if (is<bool>()) return as<bool>() ? 1 : 0;
  return {};
}

std::optional<double> Value::number() const {
  if (is<double>()) return as<double>();
  if (const auto whole = integer()) return static_cast<double>(*whole);
  return {};
}

int Value::depth() const {
  if (is_list()) return list().depth;
  if (is_dict()) return dict().depth;
  return 0;
}

std::string_view Value::type() const {
  static constexpr std::array<std::string_view, 7> lists = {"list",        "tuple",      "range", "dict_keys",
                                                            "dict_values", "dict_items", "tuple"};
  static constexpr std::array<std::string_view, 8> names = {"undefined", "none", "bool", "int", "float", "str", "", "dict"};
  if (is_list()) return lists[static_cast<std::size_t>(list().kind)];
  if (is_object()) return as<Object*>()->type();
  return names[v_.index()];
}

const Value* Dict::find_spelled(std::string_view spelled) const {
  const auto found = index.find(spelled);
  return found == index.end() ? nullptr : &items[found->second].second;
}

const Value* Dict::find(std::string_view text_key) const {
  std::string spelled;
  spelled.reserve(text_key.size() + 1);
  spelled += 's';
  spelled += text_key;
  return find_spelled(spelled);
}

std::optional<Value> Arguments::take(std::string_view name) {
  std::optional<Value> taken;
  for (auto at = named.begin(); at != named.end(); ++at) {
    if (at->first != name) continue;
    taken.emplace(at->second);
    named.erase(at);
    break;
  }
  return taken;
}

}  // namespace bantam::inline v0::jinja
