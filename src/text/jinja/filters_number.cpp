// Filters that give numbers, and `default`.
#include <charconv>
#include <cmath>
#include <limits>

#include "text/jinja/format.hpp"
#include "text/jinja/functions.hpp"
#include "text/jinja/represent.hpp"
#include "text/jinja/text_methods.hpp"

namespace bantam::inline v0::jinja {

namespace {

/// Digits of a number as Python's int() and float() read them: spaces around, single underscores between digits.
std::optional<std::string> digits_of(Run& run, const std::string& text) {
  std::string out;
  const std::string_view inner = strip(run, text, nullptr, Side::both);
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const auto is_digit = [&](std::size_t at) { return at < inner.size() && std::isxdigit(static_cast<unsigned char>(inner[at])); };
    if (inner[i] != '_') {
      out += inner[i];
    } else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) {
      return {};
    }
  }
  return out;
}

std::optional<std::int64_t> read_integer(Run& run, const std::string& text, std::int64_t base) {
  auto digits = digits_of(run, text);
  if (!digits) return {};
  std::string_view rest = *digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const char mark = rest.size() > 1 && rest[0] == '0' ? static_cast<char>(rest[1] | 0x20) : '\0';
  const std::int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  if (base == 0) base = marked ? marked : 10;
  if (base < 2 || base > 36) return {};
  if (marked == base) rest.remove_prefix(2);
  if (rest.empty() || rest[0] == '-') return {};
  const std::string signed_text = message(negative ? "-" : "", rest);
  std::int64_t value = 0;
  const char* end = signed_text.data() + signed_text.size();
  const auto [last, code] = std::from_chars(signed_text.data(), end, value, static_cast<int>(base));
  if (code == std::errc::result_out_of_range && last == end) run.over_limit("expected integers of at most 64 bits, found a larger one");
  if (code != std::errc{} || last != end) return {};
  return value;
}

std::optional<double> read_real(Run& run, const std::string& text) {
  auto digits = digits_of(run, text);
  if (!digits) return {};
  std::string_view rest = *digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty() || rest[0] == '-' || rest[0] == '+') return {};
  double value = 0;
  const auto [last, code] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (last != rest.data() + rest.size()) return {};
  if (code == std::errc::result_out_of_range) {
    const std::size_t e = rest.find_first_of("eE");
    value = e != std::string_view::npos && e + 1 < rest.size() && rest[e + 1] == '-' ? 0 : std::numeric_limits<double>::infinity();
  } else if (code != std::errc{}) {
    return {};
  }
  return negative ? -value : value;
}

/// float() of a value, nullopt where Python raises a TypeError or ValueError.
std::optional<double> to_real(Run& run, const Value& value) {
  if (value.is_undefined()) run.undefined_error(value);
  if (const auto number = value.number()) return number;
  if (value.is_text()) return read_real(run, value.text());
  return {};
}

Value whole_part(Run& run, double value) {
  // 2^63: what the conversion can hold.
  if (std::isinf(value) || std::fabs(value) >= 9223372036854775808.0) run.over_limit("expected integers of at most 64 bits, found a larger one");
  return static_cast<std::int64_t>(value);
}

Value int_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "int", arguments, {"default", "base"});
  if (const auto whole = subject.integer()) return *whole;
  if (subject.is_text()) {
    if (const auto read = read_integer(run, subject.text(), given.integer(1, 10))) return *read;
  }
  const auto real = to_real(run, subject);
  if (real && !std::isnan(*real)) return whole_part(run, *real);
  return given[0] ? *given[0] : Value(std::int64_t{0});
}

Value float_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "float", arguments, {"default"});
  if (const auto real = to_real(run, subject)) return *real;
  return given[0] ? *given[0] : Value(0.0);
}

Value abs_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "abs", arguments, {});
  if (subject.is_undefined()) run.undefined_error(subject);
  if (subject.is<double>()) return std::fabs(subject.as<double>());
  const auto whole = subject.integer();
  if (!whole) run.error("expected a number, found a ", subject.type());
  return *whole < 0 ? negate(run, Value(*whole)) : Value(*whole);
}

/// To a multiple of 10^digits, halves to even.
Value round_integer(Run& run, std::int64_t value, std::int64_t digits) {
  // 10^18 is the largest power of ten below 2^63; half of the next is below it too.
  constexpr std::int64_t half_of_next = 5'000'000'000'000'000'000;
  if (digits == 19 && (value > half_of_next || value < -half_of_next)) {
    run.over_limit("expected integers of at most 64 bits, found a larger result");
  }
  if (digits > 18) return std::int64_t{0};
  std::int64_t unit = 1;
  for (; digits > 0; --digits) unit *= 10;
  std::int64_t rest = value % unit;
  if (rest < 0) rest += unit;
  const std::int64_t down = (value - rest) / unit;
  const bool up = rest > unit - rest || (rest == unit - rest && down % 2 != 0);
  return arithmetic(run, "*", Value(down + (up ? 1 : 0)), Value(unit));
}

Value round_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "round", arguments, {"precision", "method"});
  const std::string method = given.text(1, "common");
  // More digits than a double has on either side change nothing.
  const std::int64_t precision = std::min<std::int64_t>(std::max<std::int64_t>(given.integer(0, 0), -400), 400);
  if (subject.is_undefined()) run.undefined_error(subject);
  const auto number = subject.number();
  if (!number) run.error("expected a number to round, found a ", subject.type());
  if (method == "ceil" || method == "floor") {
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double scaled = *number * scale;
    if (!std::isfinite(scaled)) run.error("found a number beyond what can be rounded");
    return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
  }
  if (method != "common") run.error("expected common, ceil or floor, found '", printable(method), "'");
  if (const auto whole = subject.integer()) return precision >= 0 ? Value(*whole) : round_integer(run, *whole, -precision);
  if (!std::isfinite(*number)) return *number;
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::isfinite(unit) ? std::nearbyint(*number / unit) * unit : 0.0;
  }
  // The decimal digits of the exact value, rounded right, and back.
  const std::string digits = fixed_digits(*number, static_cast<int>(precision));
  double out = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return out;
}

Value length_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "length", arguments, {});
  const std::int64_t size = length(run, subject);
  if (size < 0) run.error("expected something with a length, found a ", subject.type());
  return size;
}

Value default_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "default", arguments, {"default_value", "boolean"});
  const bool replaces = subject.is_undefined() || (given.flag(1) && !truth(run, subject));
  if (!replaces) return subject;
  return given[0] ? *given[0] : run.text("");
}

Value filesizeformat_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "filesizeformat", arguments, {"binary"});
  const auto bytes = to_real(run, subject);
  if (!bytes) run.error("expected a number of bytes, found a ", subject.type());
  const bool binary = given.flag(0);
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return run.text("1 Byte");
  if (*bytes < base) return run.text(message(whole_part(run, *bytes).as<std::int64_t>(), " Bytes"));
  static constexpr std::string_view letters = "KMGTPEZY";
  double unit = base;
  std::size_t i = 0;
  for (; i + 1 < letters.size() && *bytes >= unit * base; ++i) unit *= base;
  const std::string letter = i == 0 && !binary ? "k" : std::string(1, letters[i]);
  return run.text(message(fixed_digits(base * *bytes / (unit * base), 1), ' ', letter, binary ? "iB" : "B"));
}

constexpr Entry<Filter> number_filters[] = {
    {"length", length_filter},   {"count", length_filter}, {"default", default_filter},
    {"d", default_filter},       {"int", int_filter},      {"float", float_filter},
    {"abs", abs_filter},         {"round", round_filter},  {"filesizeformat", filesizeformat_filter},
};

}  // namespace

Filter find_number_filter(std::string_view name) { return find_entry(number_filters, name); }

}  // namespace bantam::inline v0::jinja
