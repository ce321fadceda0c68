// Subscripts, attributes and slices as Jinja's sandbox resolves them.
#include <algorithm>

#include "text/jinja/objects.hpp"
#include "text/jinja/operate.hpp"
#include "text/jinja/represent.hpp"
#include "text/jinja/unicode.hpp"

namespace bantam::inline v0::jinja {

namespace {

/// Kinds that take an index; dict views do not.
bool is_sequence(const List& list) {
  return list.kind == ListKind::list || list.kind == ListKind::tuple || list.kind == ListKind::range ||
         list.kind == ListKind::group;
}

Value missing(Run& run, const Value& value, std::string_view name) {
  return run.undefined(message("'", value.type(), " object' has no attribute '", printable(name), "'"));
}

std::optional<Value> own_attribute(Run& run, const Value& value, std::string_view name) {
  if (value.is_object()) return value.as<Object*>()->attribute(run, name);
  if (value.is_list() && value.list().kind == ListKind::group) {
    if (name == "grouper") return value.list().items[0];
    if (name == "list") return value.list().items[1];
  }
  if (is_mutator(value, name)) {
    return run.undefined(message("access to attribute '", name, "' of '", value.type(), "' object is unsafe"));
  }
  if (const Method method = find_method(value, name)) {
    return Value(static_cast<Object*>(run.make<BoundMethod>(value, method)));
  }
  return {};
}

std::optional<Value> own_item(Run& run, const Value& value, const Value& index) {
  if (value.is_dict()) {
    // What cannot be a key is not in any dict.
    if (index.is_dict() || (index.is_list() && index.list().kind == ListKind::list)) return {};
    const Value* found = value.dict().find_spelled(spell_key(run, index));
    if (found) return *found;
    return {};
  }
  const auto whole = index.integer();
  if (!whole) return {};
  if (value.is_list() && is_sequence(value.list())) {
    const auto& items = value.list().items;
    const auto size = static_cast<std::int64_t>(items.size());
    const std::int64_t at = *whole < 0 && *whole >= -size ? *whole + size : *whole;
    if (at < 0 || at >= size) return {};
    return items[static_cast<std::size_t>(at)];
  }
  if (value.is_text()) {
    const std::string& text = value.text();
    const std::int64_t size = length(run, value);
    const std::int64_t at = *whole < 0 && *whole >= -size ? *whole + size : *whole;
    if (at < 0 || at >= size) return {};
    const std::size_t offset = offset_of(text, static_cast<std::size_t>(at));
    return run.text(text.substr(offset, character_at(text, offset).size), value.is_markup());
  }
  return {};
}

/// The elements that a slice takes, as Python's slice.indices.
struct Bounds {
  std::int64_t start, stop, step;
  [[nodiscard]] std::int64_t count() const {
    if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
    return stop < start ? (start - stop - 1) / -step + 1 : 0;
  }
};

Bounds bounds(Run& run, std::int64_t size, const Value& start, const Value& stop, const Value& step) {
  const auto whole = [&](const Value& v, std::int64_t otherwise) {
    if (v.is_none()) return otherwise;
    if (v.is_undefined()) run.undefined_error(v);
    const auto i = v.integer();
    if (!i) run.error("expected ints in a slice, found a ", v.type());
    return *i;
  };
  Bounds b{};
  // Steps beyond any size act alike; bounded, the arithmetic cannot overflow.
  b.step = std::clamp<std::int64_t>(whole(step, 1), -(INT64_MAX / 4), INT64_MAX / 4);
  if (b.step == 0) run.error("expected a slice's step other than zero");
  const std::int64_t low = b.step > 0 ? 0 : -1, high = b.step > 0 ? size : size - 1;
  const auto place = [&](std::int64_t i) { return i < 0 ? std::max(i < -size ? low : i + size, low) : std::min(i, high); };
  b.start = start.is_none() ? (b.step > 0 ? low : high) : place(whole(start, 0));
  b.stop = stop.is_none() ? (b.step > 0 ? high : low) : place(whole(stop, 0));
  return b;
}

Value slice_text(Run& run, const Value& value, const Bounds& b) {
  const std::string& text = value.text();
  run.step(text.size() / 16);
  if (b.count() == 0) return run.text("", value.is_markup());
  if (b.step == 1) {
    const std::size_t from = offset_of(text, static_cast<std::size_t>(b.start));
    const std::string_view rest = std::string_view(text).substr(from);
    return run.text(std::string(rest.substr(0, offset_of(rest, static_cast<std::size_t>(b.stop - b.start)))), value.is_markup());
  }
  const ListPtr characters = elements(run, value);
  std::string out;
  for (std::int64_t i = 0, at = b.start; i < b.count(); ++i, at += b.step) {
    out += characters->items[static_cast<std::size_t>(at)].text();
  }
  return run.text(std::move(out), value.is_markup());
}

}  // namespace

Value get_attribute(Run& run, const Value& value, std::string_view name) {
  run.step();
  if (value.is_undefined()) run.undefined_error(value);
  if (auto found = own_attribute(run, value, name)) return *std::move(found);
  if (value.is_dict()) {
    if (const Value* found = value.dict().find(name)) return *found;
  }
  return missing(run, value, name);
}

Value get_item(Run& run, const Value& value, const Value& index) {
  run.step();
  if (value.is_undefined()) run.undefined_error(value);
  if (auto found = own_item(run, value, index)) return *std::move(found);
  if (index.is_text()) {
    if (auto found = own_attribute(run, value, index.text())) return *std::move(found);
    return missing(run, value, index.text());
  }
  return run.undefined(message(value.type(), " object has no element ", printable(represent(run, index))));
}

Value slice(Run& run, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.is_undefined()) run.undefined_error(value);
  const bool sequence = value.is_list() && is_sequence(value.list());
  if (!value.is_text() && !sequence) run.error("expected something to slice, found a ", value.type());
  const Bounds b = bounds(run, length(run, value), start, stop, step);
  if (value.is_text()) return slice_text(run, value, b);
  const List& from = value.list();
  run.step(static_cast<std::uint64_t>(b.count()));
  std::vector<Value> items;
  items.reserve(static_cast<std::size_t>(b.count()));
  for (std::int64_t i = 0, at = b.start; i < b.count(); ++i, at += b.step) items.push_back(from.items[static_cast<std::size_t>(at)]);
  if (from.kind != ListKind::range) return run.list(std::move(items), from.kind == ListKind::list ? ListKind::list : ListKind::tuple);
  auto range = std::make_shared<List>(*run.list(std::move(items), ListKind::range).as<ListPtr>());
  std::int64_t start_at = 0, stop_at = 0;
  const bool over = __builtin_mul_overflow(b.start, from.step, &start_at) ||
                    __builtin_add_overflow(from.start, start_at, &range->start) ||
                    __builtin_mul_overflow(b.stop, from.step, &stop_at) ||
                    __builtin_add_overflow(from.start, stop_at, &range->stop) ||
                    __builtin_mul_overflow(from.step, b.step, &range->step);
  if (over) run.over_limit("expected a range of integers of at most 64 bits, found larger ones");
  return Value(ListPtr(std::move(range)));
}

}  // namespace bantam::inline v0::jinja
