// Matching arguments with parameters, calling, and looking functions up by name.
#include "text/jinja/functions.hpp"

#include <algorithm>

#include "text/jinja/objects.hpp"
#include "text/jinja/represent.hpp"
#include "text/jinja/unicode.hpp"

namespace bantam::inline v0::jinja {

Parameters::Parameters(Run& run, std::string_view function, Arguments& arguments,
                       std::initializer_list<std::string_view> names, std::size_t required)
    : run_(run), function_(function), names_(names), values_(names.size()), given_(names.size()) {
  if (arguments.positional.size() > names_.size()) {
    run.error("expected at most ", names_.size(), " arguments of '", function, "', found ", arguments.positional.size());
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = std::move(arguments.positional[i]);
    given_[i] = true;
  }
  for (auto& [name, value] : arguments.named) {
    const auto place = std::find(names_.begin(), names_.end(), name);
    if (place == names_.end()) run.error("'", function, "' has no argument '", printable(name), "'");
    const auto i = static_cast<std::size_t>(place - names_.begin());
    if (given_[i]) run.error("expected argument '", names_[i], "' of '", function, "' once, found it twice");
    values_[i] = std::move(value);
    given_[i] = true;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!given_[i]) run.error("expected argument '", names_[i], "' of '", function, "', found none");
  }
}

void Parameters::wrong(std::size_t i, std::string_view expected) const {
  if (values_[i].is_undefined()) run_.undefined_error(values_[i]);
  run_.error("expected ", expected, " for argument '", names_[i], "' of '", function_, "', found a ", values_[i].type());
}

std::int64_t Parameters::integer(std::size_t i, std::int64_t otherwise) const {
  if (!given_[i]) return otherwise;
  const auto value = values_[i].integer();
  if (!value) wrong(i, "an int");
  return *value;
}

std::string Parameters::text(std::size_t i, std::string_view otherwise) const {
  if (!given(i)) return std::string(otherwise);
  if (!values_[i].is_text()) wrong(i, "a str");
  return values_[i].text();
}

bool Parameters::flag(std::size_t i, bool otherwise) const { return given_[i] ? truth(run_, values_[i]) : otherwise; }

Filter find_filter(std::string_view name) {
  for (const auto find : {find_text_filter, find_number_filter, find_sequence_filter, find_selection_filter}) {
    if (const Filter filter = find(name)) return filter;
  }
  return nullptr;
}

Method find_method(const Value& value, std::string_view name) {
  if (!value.is_text()) return find_container_method(value, name);
  const Method method = find_text_method(name);
  return method ? method : find_text_query(name);
}

bool is_mutator(const Value& value, std::string_view name) {
  static constexpr std::string_view list[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
  static constexpr std::string_view dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  if (value.is_list() && value.list().kind == ListKind::list) {
    return std::find(std::begin(list), std::end(list), name) != std::end(list);
  }
  return value.is_dict() && std::find(std::begin(dict), std::end(dict), name) != std::end(dict);
}

Value call(Run& run, const Value& callee, Arguments& arguments) {
  const Depth depth(run);
  run.step();
  if (callee.is_undefined()) run.undefined_error(callee);
  if (!callee.is_object()) run.error("expected something to call, found a ", callee.type());
  return callee.as<Object*>()->call(run, arguments);
}

Value get_path(Run& run, const Value& item, const Value& path, const Value* otherwise) {
  if (path.is_none()) return item;
  if (!path.is_text()) {
    Value found = get_item(run, item, path);
    return otherwise && found.is_undefined() ? *otherwise : found;
  }
  Value at = item;
  const std::string& whole = path.text();
  for (std::size_t from = 0; from <= whole.size();) {
    const std::size_t dot = std::min(whole.find('.', from), whole.size());
    const std::string part = whole.substr(from, dot - from);
    from = dot + 1;
    // Six digits: no list is longer than the budget of a run.
    const bool number = !part.empty() && part.size() <= 6 && part.find_first_not_of("0123456789") == std::string::npos;
    at = get_item(run, at, number ? Value(std::int64_t{std::stoi(part)}) : run.text(part));
    if (otherwise && at.is_undefined()) at = *otherwise;
  }
  return at;
}

Value ignore_case(Run& run, const Value& value) {
  if (!value.is_text()) return value;
  run.scan(value.text().size());
  return run.text(to_lower(value.text()));
}

}  // namespace bantam::inline v0::jinja
