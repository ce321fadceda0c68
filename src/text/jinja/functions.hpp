// The functions that templates call: filters, tests, methods, globals; and how their arguments are read.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/operate.hpp"
#include "text/jinja/run.hpp"

namespace bantam::inline v0::jinja {

/// Arguments matched with a function's parameters, as Python matches them.
class Parameters {
 public:
  /// Fails for too many, unknown, doubled or missing arguments; the first `required` must be there.
  Parameters(Run& run, std::string_view function, Arguments& arguments, std::initializer_list<std::string_view> names,
             std::size_t required = 0);

  /// nullptr where the argument was left out.
  [[nodiscard]] const Value* operator[](std::size_t i) const { return given_[i] ? &values_[i] : nullptr; }
  [[nodiscard]] std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  /// Left out or none: `otherwise`.
  [[nodiscard]] std::string text(std::size_t i, std::string_view otherwise) const;
  [[nodiscard]] bool flag(std::size_t i, bool otherwise = false) const;
  [[nodiscard]] bool given(std::size_t i) const { return given_[i] && !values_[i].is_none(); }

 private:
  [[noreturn]] void wrong(std::size_t i, std::string_view expected) const;

  Run& run_;
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<Value> values_;
  std::vector<bool> given_;
};

using Filter = Value (*)(Run&, const Value& subject, Arguments&);
using Test = bool (*)(Run&, const Value& subject, Arguments&);
using Method = Value (*)(Run&, const Value& self, Arguments&);
template <class F>
struct Entry {
  std::string_view name;
  F function;
};

/// nullptr where there is no such filter or test.
[[nodiscard]] Filter find_filter(std::string_view name);
[[nodiscard]] Test find_test(std::string_view name);
/// nullptr where the value's type has no such method.
[[nodiscard]] Method find_method(const Value& value, std::string_view name);
/// Whether a method changes its object: the sandbox hides those.
[[nodiscard]] bool is_mutator(const Value& value, std::string_view name);

/// range, dict, namespace, joiner, cycler, raise_exception, strftime_now; nullptr for other names.
[[nodiscard]] Object* make_global(Run& run, std::string_view name);

[[nodiscard]] Value call(Run& run, const Value& callee, Arguments& arguments);
/// "text" % values.
[[nodiscard]] Value format_percent(Run& run, const Value& format, const Value& values);
/// "{}".format(...).
[[nodiscard]] Value format_braces(Run& run, const Value& format, Arguments& arguments);
/// A time as strftime writes it in the C locale.
[[nodiscard]] std::string format_time(Run& run, std::string_view format);

// The tables that find_filter and find_method look through, by subject.
[[nodiscard]] Filter find_text_filter(std::string_view name);
[[nodiscard]] Filter find_number_filter(std::string_view name);
[[nodiscard]] Filter find_sequence_filter(std::string_view name);
[[nodiscard]] Filter find_selection_filter(std::string_view name);
[[nodiscard]] Method find_text_method(std::string_view name);
[[nodiscard]] Method find_text_query(std::string_view name);
[[nodiscard]] Method find_container_method(const Value& value, std::string_view name);

template <class F, std::size_t n>
[[nodiscard]] F find_entry(const Entry<F> (&table)[n], std::string_view name) {
  for (const auto& entry : table) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

/// The key that "a.b.0" names in an element: attribute paths of map, sort, selectattr and others.
[[nodiscard]] Value get_path(Run& run, const Value& item, const Value& path, const Value* otherwise = nullptr);
/// Lower case for texts, anything else as it is.
[[nodiscard]] Value ignore_case(Run& run, const Value& value);

}  // namespace bantam::inline v0::jinja
