// + - * / // % ** on numbers, texts and lists; integers of 64 bits, an overflow is an error.
#include <cmath>

#include "text/jinja/functions.hpp"
#include "text/jinja/operate.hpp"
#include "text/jinja/represent.hpp"

namespace bantam::inline v0::jinja {

namespace {

[[noreturn]] void overflow(Run& run) { run.over_limit("expected integers of at most 64 bits, found a larger result"); }

std::int64_t floor_divide(Run& run, std::int64_t a, std::int64_t b) {
  if (b == 0) run.error("expected a divisor other than zero");
  if (b == -1) {
    std::int64_t out = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, a, &out)) overflow(run);
    return out;
  }
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::int64_t floor_modulo(Run& run, std::int64_t a, std::int64_t b) {
  if (b == 0) run.error("expected a divisor other than zero");
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value integer_power(Run& run, std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) run.error("expected a base other than zero under a negative exponent");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  if (base == 0 || base == 1) return exponent == 0 ? std::int64_t{1} : base;
  if (base == -1) return std::int64_t{exponent % 2 == 0 ? 1 : -1};
  std::int64_t out = 1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(out, base, &out)) overflow(run);
  }
  return out;
}

Value integers(Run& run, std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  bool over = false;
  if (op == "+") {
    over = __builtin_add_overflow(a, b, &out);
  } else if (op == "-") {
    over = __builtin_sub_overflow(a, b, &out);
  } else if (op == "*") {
    over = __builtin_mul_overflow(a, b, &out);
  } else if (op == "//") {
    out = floor_divide(run, a, b);
  } else if (op == "%") {
    out = floor_modulo(run, a, b);
  } else if (op == "**") {
    return integer_power(run, a, b);
  } else {
    if (b == 0) run.error("expected a divisor other than zero");
    return static_cast<double>(a) / static_cast<double>(b);
  }
  if (over) overflow(run);
  return out;
}

Value reals(Run& run, std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") {
    if (a == 0 && b < 0) run.error("expected a base other than zero under a negative exponent");
    const double out = std::pow(a, b);
    if (std::isnan(out) && !std::isnan(a) && !std::isnan(b)) run.error("found a power that is no real number");
    if (std::isinf(out) && !std::isinf(a) && !std::isinf(b)) run.error("found a power beyond what a float holds");
    return out;
  }
  if (b == 0) run.error("expected a divisor other than zero");
  if (op == "/") return a / b;
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (op == "%") return rest == 0 ? std::copysign(0.0, b) : rest;
  const double quotient = (a - rest) / b;
  double whole = std::floor(quotient);
  if (quotient - whole > 0.5) whole += 1;
  return quotient == 0 ? std::copysign(0.0, a / b) : whole;
}

Value add_texts(Run& run, const Value& a, const Value& b) {
  const bool markup = a.is_markup() || b.is_markup();
  const Value left = markup ? escape_html(run, a) : a;
  const Value right = markup ? escape_html(run, b) : b;
  run.check_text_size(left.text().size() + right.text().size());
  return run.text(left.text() + right.text(), markup);
}

Value add_lists(Run& run, const List& a, const List& b) {
  run.step(a.items.size() + b.items.size());
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return run.list(std::move(items), a.kind);
}

Value repeat(Run& run, const Value& value, std::int64_t count) {
  const std::uint64_t times = count > 0 ? static_cast<std::uint64_t>(count) : 0;
  if (value.is_text()) {
    Builder out(run);
    if (!value.text().empty()) out.fill(times, value.text());
    return run.text(out.take(), value.is_markup());
  }
  const auto& items = value.list().items;
  std::vector<Value> out;
  if (!items.empty() && times > 0) {
    if (times > max_steps / items.size()) run.step(max_steps + 1);
    run.step(times * items.size());
    run.allocate(times * items.size() * sizeof(Value));
    out.reserve(times * items.size());
    for (std::uint64_t i = 0; i < times; ++i) out.insert(out.end(), items.begin(), items.end());
  }
  return run.list(std::move(out), value.list().kind);
}

/// A kind of list that + and * work on.
bool is_plain(const Value& value) {
  if (!value.is_list()) return false;
  const ListKind kind = value.list().kind;
  return kind == ListKind::list || kind == ListKind::tuple || kind == ListKind::group;
}

}  // namespace

Value arithmetic(Run& run, std::string_view op, const Value& a, const Value& b) {
  // printf formatting comes first: "%s" % undefined is fine in Python.
  if (op == "%" && a.is_text()) return format_percent(run, a, b);
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) run.undefined_error(*value);
  }
  const auto i = a.integer(), j = b.integer();
  if (i && j) return integers(run, op, *i, *j);
  if (a.number() && b.number()) return reals(run, op, *a.number(), *b.number());
  if (op == "+") {
    if (a.is_text() && b.is_text()) return add_texts(run, a, b);
    if (is_plain(a) && is_plain(b) && a.type() == b.type()) return add_lists(run, a.list(), b.list());
  }
  if (op == "*") {
    if ((a.is_text() || is_plain(a)) && j) return repeat(run, a, *j);
    if ((b.is_text() || is_plain(b)) && i) return repeat(run, b, *i);
  }
  run.error("expected operands that fit '", op, "', found a ", a.type(), " and a ", b.type());
}

Value negate(Run& run, const Value& value) {
  if (value.is_undefined()) run.undefined_error(value);
  if (const auto whole = value.integer()) return integers(run, "-", 0, *whole);
  if (value.is<double>()) return -value.as<double>();
  run.error("expected a number behind a sign, found a ", value.type());
}

Value escape_html(Run& run, const Value& value) {
  if (value.is_markup()) return value;
  const std::string text = to_text(run, value);
  Builder out(run);
  for (const char c : text) {
    switch (c) {
      case '&': out.add("&amp;"); break;
      case '<': out.add("&lt;"); break;
      case '>': out.add("&gt;"); break;
      case '"': out.add("&#34;"); break;
      case '\'': out.add("&#39;"); break;
      default: out.add(c);
    }
  }
  return run.text(out.take(), true);
}

}  // namespace bantam::inline v0::jinja
