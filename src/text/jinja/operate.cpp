// Truth, equality, order, membership and iteration, as Python defines them.
#include "text/jinja/operate.hpp"

#include <algorithm>
#include <cmath>

#include "text/jinja/unicode.hpp"

namespace bantam::inline v0::jinja {

bool truth(Run& run, const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is<bool>()) return value.as<bool>();
  if (value.is<std::int64_t>()) return value.as<std::int64_t>() != 0;
  if (value.is<double>()) return value.as<double>() != 0;
  if (value.is_text()) return !value.text().empty();
  if (value.is_list()) return !value.list().items.empty();
  if (value.is_dict()) return !value.dict().items.empty();
  return value.as<Object*>()->length(run) != 0;
}

namespace {

bool is_tuple(ListKind kind) { return kind == ListKind::tuple || kind == ListKind::group; }

bool equal_lists(Run& run, const List& a, const List& b) {
  const bool same_kind = a.kind == b.kind || (is_tuple(a.kind) && is_tuple(b.kind));
  if (!same_kind || a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!equals(run, a.items[i], b.items[i])) return false;
  }
  return true;
}

bool equal_dicts(Run& run, const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [spelled, place] : a.index) {
    run.step();
    const Value* other = b.find_spelled(spelled);
    if (!other || !equals(run, a.items[place].second, *other)) return false;
  }
  return true;
}

bool equal_numbers(const Value& a, const Value& b) {
  const auto x = a.integer(), y = b.integer();
  if (x && y) return *x == *y;
  return *a.number() == *b.number();
}

}  // namespace

bool equals(Run& run, const Value& a, const Value& b) {
  run.step();
  if (a.number() && b.number()) return equal_numbers(a, b);
  if (a.variant().index() != b.variant().index()) return false;
  if (a.is_text()) {
    if (a.text().size() != b.text().size()) return false;
    run.scan(a.text().size());
    return a.text() == b.text();
  }
  // A list that contains itself does not exist, so identity is only a shortcut.
  if (a.is_list()) return a.as<ListPtr>() == b.as<ListPtr>() || equal_lists(run, a.list(), b.list());
  if (a.is_dict()) return a.as<DictPtr>() == b.as<DictPtr>() || equal_dicts(run, a.dict(), b.dict());
  if (a.is_object()) return a.as<Object*>() == b.as<Object*>();
  return true;
}

bool less(Run& run, const Value& a, const Value& b) {
  run.step();
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) run.undefined_error(*value);
  }
  if (const auto x = a.number(), y = b.number(); x && y) {
    const auto i = a.integer(), j = b.integer();
    return i && j ? *i < *j : *x < *y;
  }
  if (a.is_text() && b.is_text()) {
    run.scan(std::min(a.text().size(), b.text().size()));
    return a.text() < b.text();
  }
  if (a.is_list() && b.is_list()) {
    const ListKind x = a.list().kind, y = b.list().kind;
    if ((is_tuple(x) && is_tuple(y)) || (x == ListKind::list && y == ListKind::list)) {
      const auto& left = a.list().items;
      const auto& right = b.list().items;
      for (std::size_t i = 0; i < left.size() && i < right.size(); ++i) {
        if (!equals(run, left[i], right[i])) return less(run, left[i], right[i]);
      }
      return left.size() < right.size();
    }
  }
  run.error("expected two values with an order, found a ", a.type(), " and a ", b.type());
}

bool contains(Run& run, const Value& haystack, const Value& needle) {
  if (haystack.is_text()) {
    if (!needle.is_text()) run.error("expected a str to look for in a str, found a ", needle.type());
    run.scan(haystack.text().size() + needle.text().size());
    return Finder(needle.text()).find(haystack.text()) != std::string_view::npos;
  }
  if (haystack.is_dict()) return haystack.dict().find_spelled(spell_key(run, needle)) != nullptr;
  const ListPtr list = elements(run, haystack);
  return std::any_of(list->items.begin(), list->items.end(), [&](const Value& item) { return equals(run, item, needle); });
}

bool compare(Run& run, std::string_view op, const Value& a, const Value& b) {
  if (op == "==") return equals(run, a, b);
  if (op == "!=") return !equals(run, a, b);
  if (op == "in") return contains(run, b, a);
  if (op == "notin") return !contains(run, b, a);
  if (op == "<") return less(run, a, b);
  if (op == ">") return less(run, b, a);
  // With NaN, <= is no negation of >.
  const auto is_nan = [](const Value& v) { return v.is<double>() && std::isnan(v.as<double>()); };
  if (is_nan(a) || is_nan(b)) return false;
  return op == "<=" ? !less(run, b, a) : !less(run, a, b);
}

bool iterable(const Value& value) {
  if (value.is_undefined() || value.is_text() || value.is_list() || value.is_dict()) return true;
  return value.is_object() && value.as<Object*>()->iterable();
}

ListPtr elements(Run& run, const Value& value) {
  if (value.is_list()) return value.as<ListPtr>();
  if (value.is_undefined()) return std::make_shared<const List>();
  std::vector<Value> items;
  if (value.is_text()) {
    const std::string& text = value.text();
    // Every character becomes a text of its own.
    run.step(text.size());
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = character_at(text, at).size;
      items.push_back(run.text(text.substr(at, size), value.is_markup()));
      at += size;
    }
    return run.list(std::move(items)).as<ListPtr>();
  }
  if (value.is_dict()) {
    for (const auto& [key, mapped] : value.dict().items) items.push_back(key);
    return run.list(std::move(items)).as<ListPtr>();
  }
  if (value.is_object()) {
    if (ListPtr list = value.as<Object*>()->iterate(run)) return list;
  }
  run.error("expected something to iterate over, found a ", value.type());
}

std::int64_t length(Run& run, const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) {
    // Counting characters is slower than comparing bytes.
    run.step(value.text().size() / 16 + 1);
    return static_cast<std::int64_t>(count_characters(value.text()));
  }
  if (value.is_list()) return static_cast<std::int64_t>(value.list().items.size());
  if (value.is_dict()) return static_cast<std::int64_t>(value.dict().items.size());
  if (value.is_object()) return value.as<Object*>()->length(run);
  return -1;
}

Finder::Finder(std::string_view needle) : needle_(needle), border_(needle.size() + 1) {
  std::uint32_t length = 0;
  for (std::size_t i = 1; i < needle.size(); ++i) {
    while (length > 0 && needle[i] != needle[length]) length = border_[length];
    if (needle[i] == needle[length]) ++length;
    border_[i + 1] = length;
  }
}

std::size_t Finder::find(std::string_view haystack, std::size_t from) const {
  if (needle_.empty()) return from <= haystack.size() ? from : std::string_view::npos;
  std::size_t matched = 0;
  for (std::size_t i = from; i < haystack.size(); ++i) {
    while (matched > 0 && haystack[i] != needle_[matched]) matched = border_[matched];
    if (haystack[i] == needle_[matched]) ++matched;
    if (matched == needle_.size()) return i + 1 - matched;
  }
  return std::string_view::npos;
}

}  // namespace bantam::inline v0::jinja
