// The budgeted makers of values, and the variables of a run.
#include "text/jinja/run.hpp"

#include <algorithm>
#include <cmath>

#include "text/jinja/functions.hpp"

namespace bantam::inline v0::jinja {

namespace {

// A vector's growth and a map node beside the two values.
constexpr std::size_t dict_entry_bytes = 2 * sizeof(Value) + 96;

}  // namespace

void Run::undefined_error(const Value& value) const {
  const auto& reason = value.as<Undefined>().reason;
  error(reason ? *reason : std::string("found an undefined value"));
}

Value Run::text(std::string bytes, bool markup) {
  check_text_size(bytes.size());
  allocate(bytes.size() + sizeof(Text));
  return Value(std::make_shared<const Text>(Text{std::move(bytes), markup}));
}

Value Run::list(std::vector<Value> items, ListKind kind) {
  allocate(items.size() * sizeof(Value) + sizeof(List));
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  if (depth >= max_value_depth) over_limit("expected lists nested at most ", max_value_depth, " deep, found more");
  auto made = std::make_shared<List>();
  made->kind = kind;
  made->depth = depth + 1;
  made->items = std::move(items);
  return Value(ListPtr(std::move(made)));
}

Value Run::undefined(std::string reason) {
  allocate(reason.size() + 64);
  return Value(Undefined{std::make_shared<const std::string>(std::move(reason))});
}

Value Run::lookup(std::string_view name) {
  for (const Scope* s = scope_; s; s = s->parent) {
    if (const auto found = s->names.find(name); found != s->names.end()) return found->second;
  }
  if (const Value* found = context_->find(name)) return *found;
  if (const auto found = globals_.find(name); found != globals_.end()) return found->second;
  if (Object* global = make_global(*this, name)) {
    return globals_.emplace(std::string(name), Value(global)).first->second;
  }
  return undefined(message("'", printable(name), "' is undefined"));
}

void Run::assign(std::string_view name, Value value) {
  const auto [place, added] = scope_->names.insert_or_assign(name, std::move(value));
  if (!added) return;
  // A map node and the value.
  constexpr std::size_t bytes = 96;
  allocate(bytes);
  scope_->counted_bytes += bytes;
}

void DictBuilder::set(const Value& key, Value value) {
  std::string spelled = spell_key(run_, key);
  run_.allocate(dict_entry_bytes + spelled.size());
  dict_->depth = std::max(dict_->depth, std::max(key.depth(), value.depth()) + 1);
  if (dict_->depth > max_value_depth) {
    run_.over_limit("expected dicts nested at most ", max_value_depth, " deep, found more");
  }
  const auto [place, added] = dict_->index.emplace(std::move(spelled), dict_->items.size());
  if (added) {
    dict_->items.emplace_back(key, std::move(value));
  } else {
    dict_->items[place->second].second = std::move(value);
  }
}

std::string spell_key(Run& run, const Value& key) {
  run.step();
  if (key.is_text()) {
    run.scan(key.text().size());
    return 's' + key.text();
  }
  if (key.is_none()) return "n";
  if (const auto whole = key.integer()) return message('i', *whole);
  if (key.is<double>()) {
    const double value = key.as<double>();
    // 2^63: below it a float without a fraction equals an int.
    if (value == std::floor(value) && std::fabs(value) < 9223372036854775808.0) {
      return message('i', static_cast<std::int64_t>(value));
    }
    return message('f', value);
  }
  if (key.is_list() && (key.list().kind == ListKind::tuple || key.list().kind == ListKind::group)) {
    std::string out = message('t', key.list().items.size(), ':');
    for (const Value& item : key.list().items) {
      const std::string inner = spell_key(run, item);
      run.check_text_size(out.size() + inner.size());
      out += message(inner.size(), ':', inner);
    }
    run.allocate(out.size());
    return out;
  }
  if (key.is_object()) return message('o', reinterpret_cast<std::uintptr_t>(key.as<Object*>()));
  if (key.is_undefined()) return "u";
  run.error("expected a key that can be hashed, found a ", key.type());
}

std::optional<Value> Object::attribute(Run&, std::string_view) { return {}; }
Value Object::call(Run& run, Arguments&) { run.error("expected something to call, found a ", type()); }
ListPtr Object::iterate(Run&) { return nullptr; }
std::int64_t Object::length(Run&) { return -1; }
std::string Object::represent(Run&) { return message('<', type(), '>'); }

}  // namespace bantam::inline v0::jinja
