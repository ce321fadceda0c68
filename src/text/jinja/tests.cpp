// Jinja's tests: what stands behind `is`.
#include <cmath>

#include "text/jinja/functions.hpp"
#include "text/jinja/represent.hpp"

namespace bantam::inline v0::jinja {

namespace {

void no_arguments(Run& run, Arguments& arguments) { const Parameters none(run, "the test", arguments, {}); }

template <bool (*f)(const Value&)>
bool plain(Run& run, const Value& value, Arguments& arguments) {
  no_arguments(run, arguments);
  return f(value);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.is<bool>(); }
bool is_true(const Value& v) { return v.is<bool>() && v.as<bool>(); }
bool is_false(const Value& v) { return v.is<bool>() && !v.as<bool>(); }
bool is_integer(const Value& v) { return v.is<std::int64_t>(); }
bool is_float(const Value& v) { return v.is<double>(); }
bool is_number(const Value& v) { return v.number().has_value(); }
bool is_string(const Value& v) { return v.is_text(); }
bool is_mapping(const Value& v) { return v.is_dict(); }
bool is_escaped(const Value& v) { return v.is_markup(); }
bool is_callable(const Value& v) { return v.is_undefined() || (v.is_object() && v.as<Object*>()->callable()); }
/// Something with a length and elements by number or key; Jinja counts undefined values in.
bool is_sequence(const Value& v) {
  if (v.is_list()) {
    const ListKind kind = v.list().kind;
    return kind != ListKind::keys && kind != ListKind::values && kind != ListKind::items;
  }
  return v.is_undefined() || v.is_text() || v.is_dict();
}
bool is_iterable(const Value& v) { return iterable(v); }

template <std::int64_t rest>
bool parity(Run& run, const Value& value, Arguments& arguments) {
  no_arguments(run, arguments);
  return equals(run, arithmetic(run, "%", value, Value(std::int64_t{2})), Value(rest));
}

bool divisible(Run& run, const Value& value, Arguments& arguments) {
  const Parameters given(run, "divisibleby", arguments, {"num"}, 1);
  return equals(run, arithmetic(run, "%", value, *given[0]), Value(std::int64_t{0}));
}

bool same_as(Run& run, const Value& value, Arguments& arguments) {
  const Parameters given(run, "sameas", arguments, {"other"}, 1);
  const Value& other = *given[0];
  if (value.variant().index() != other.variant().index()) return false;
  if (value.is_text()) return value.as<TextPtr>() == other.as<TextPtr>();
  if (value.is_list()) return value.as<ListPtr>() == other.as<ListPtr>();
  if (value.is_dict()) return value.as<DictPtr>() == other.as<DictPtr>();
  return equals(run, value, other);
}

bool is_in(Run& run, const Value& value, Arguments& arguments) {
  const Parameters given(run, "in", arguments, {"seq"}, 1);
  return contains(run, *given[0], value);
}

template <bool upper>
bool has_case(Run& run, const Value& value, Arguments& arguments) {
  no_arguments(run, arguments);
  Arguments none;
  const Value text = run.text(to_text(run, value));
  return truth(run, find_method(text, upper ? "isupper" : "islower")(run, text, none));
}

enum class Order : std::uint8_t { equal, unequal, less, less_equal, greater, greater_equal };
template <Order order>
bool ordered(Run& run, const Value& value, Arguments& arguments) {
  static constexpr std::string_view names[] = {"==", "!=", "<", "<=", ">", ">="};
  const Parameters given(run, "the test", arguments, {"other"}, 1);
  return compare(run, names[static_cast<std::size_t>(order)], value, *given[0]);
}

bool names_filter(Run& run, const Value& value, Arguments& arguments) {
  no_arguments(run, arguments);
  return value.is_text() && find_filter(value.text());
}

bool names_test(Run& run, const Value& value, Arguments& arguments) {
  no_arguments(run, arguments);
  return value.is_text() && find_test(value.text());
}

constexpr Entry<Test> tests[] = {
    {"defined", plain<is_defined>},
    {"undefined", plain<is_undefined>},
    {"none", plain<is_none>},
    {"string", plain<is_string>},
    {"mapping", plain<is_mapping>},
    {"iterable", plain<is_iterable>},
    {"sequence", plain<is_sequence>},
    {"boolean", plain<is_boolean>},
    {"true", plain<is_true>},
    {"false", plain<is_false>},
    {"integer", plain<is_integer>},
    {"float", plain<is_float>},
    {"number", plain<is_number>},
    {"callable", plain<is_callable>},
    {"escaped", plain<is_escaped>},
    {"odd", parity<1>},
    {"even", parity<0>},
    {"divisibleby", divisible},
    {"sameas", same_as},
    {"in", is_in},
    {"upper", has_case<true>},
    {"lower", has_case<false>},
    {"filter", names_filter},
    {"test", names_test},
    {"==", ordered<Order::equal>},
    {"eq", ordered<Order::equal>},
    {"equalto", ordered<Order::equal>},
    {"!=", ordered<Order::unequal>},
    {"ne", ordered<Order::unequal>},
    {"<", ordered<Order::less>},
    {"lt", ordered<Order::less>},
    {"lessthan", ordered<Order::less>},
    {"<=", ordered<Order::less_equal>},
    {"le", ordered<Order::less_equal>},
    {">", ordered<Order::greater>},
    {"gt", ordered<Order::greater>},
    {"greaterthan", ordered<Order::greater>},
    {">=", ordered<Order::greater_equal>},
    {"ge", ordered<Order::greater_equal>},
};

}  // namespace

Test find_test(std::string_view name) { return find_entry(tests, name); }

}  // namespace bantam::inline v0::jinja
