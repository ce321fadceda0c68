// Numbers and texts under a format, for printf's letters and for Python's format specifications alike.
#include "text/jinja/format.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/represent.hpp"
#include "text/jinja/unicode.hpp"

namespace bantam::inline v0::jinja {

namespace {

std::string digits_as(double value, std::chars_format format, int precision) {
  // The longest double has 309 digits before the point; the precision comes behind it.
  std::string out(static_cast<std::size_t>(precision) + 330, '\0');
  const auto end = std::to_chars(out.data(), out.data() + out.size(), value, format, precision).ptr;
  out.resize(static_cast<std::size_t>(end - out.data()));
  return out;
}

std::string group(const std::string& digits, char separator, std::size_t each) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % each == 0) out += separator;
    out += digits[i];
  }
  return out;
}

/// Sign, prefix and digits, filled up to the width.
std::string assemble(Run& run, bool negative, const std::string& prefix, const std::string& digits, const FormatSpec& spec) {
  std::string head = negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
  head += prefix;
  const char align = spec.align ? spec.align : spec.zero ? '=' : '>';
  const std::string_view fill = spec.zero && !spec.align ? "0" : spec.fill;
  if (align == '=') return head + justify(run, digits, std::max<std::int64_t>(spec.width, 0) - static_cast<std::int64_t>(head.size()), fill, Side::right);
  const Side side = align == '<' ? Side::left : align == '^' ? Side::both : Side::right;
  if (side != Side::both) return justify(run, head + digits, spec.width, fill, side);
  // Format specifications put the odd one right, always.
  const auto size = static_cast<std::int64_t>(count_characters(head + digits));
  const std::int64_t left = spec.width > size ? (spec.width - size) / 2 : 0;
  return justify(run, justify(run, head + digits, size + left, fill, Side::right), spec.width, fill, Side::left);
}

}  // namespace

std::string fixed_digits(double value, int precision) { return digits_as(value, std::chars_format::fixed, precision); }

std::string format_integer(Run& run, std::int64_t value, const FormatSpec& spec) {
  const int base = spec.type == 'x' || spec.type == 'X' ? 16 : spec.type == 'o' ? 8 : spec.type == 'b' ? 2 : 10;
  const std::uint64_t size = value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  char buffer[64];
  std::string digits(buffer, std::to_chars(buffer, buffer + sizeof buffer, size, base).ptr);
  if (spec.type == 'X') std::transform(digits.begin(), digits.end(), digits.begin(), [](char c) { return c >= 'a' ? static_cast<char>(c - 32) : c; });
  if (spec.precision > 0) digits = justify(run, digits, spec.precision, "0", Side::right);
  if (spec.grouping) digits = group(digits, spec.grouping, base == 10 ? 3 : 4);
  const std::string prefix = spec.alternate && base != 10 ? message('0', spec.type) : "";
  return assemble(run, value < 0, prefix, digits, spec);
}

std::string format_real(Run& run, double value, const FormatSpec& spec) {
  if (spec.precision > max_precision) run.over_limit("expected a precision of at most ", max_precision, ", found ", spec.precision);
  const char type = spec.type ? static_cast<char>(spec.type | 0x20) : '\0';
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  const double size = std::fabs(value);
  std::string digits;
  if (!std::isfinite(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
  } else if (type == 'f') {
    digits = fixed_digits(size, precision);
  } else if (type == '%') {
    digits = fixed_digits(size * 100, precision) + '%';
  } else if (type == 'e') {
    digits = digits_as(size, std::chars_format::scientific, precision);
  } else if (type == 'g') {
    digits = digits_as(size, std::chars_format::general, precision);
  } else if (spec.precision >= 0) {
    digits = digits_as(size, std::chars_format::general, precision);
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  } else {
    digits = represent_real(size);
  }
  if (spec.grouping) {
    const std::size_t point = std::min(digits.find_first_of(".e"), digits.size());
    digits = group(digits.substr(0, point), spec.grouping, 3) + digits.substr(point);
  }
  if (spec.type == 'E' || spec.type == 'F' || spec.type == 'G') digits = to_upper(digits);
  return assemble(run, std::signbit(value) && !std::isnan(value), "", digits, spec);
}

std::string format_string(Run& run, std::string_view text, const FormatSpec& spec) {
  if (spec.precision >= 0) text = text.substr(0, offset_of(text, static_cast<std::size_t>(spec.precision)));
  FormatSpec left = spec;
  left.sign = '-';
  if (!spec.align) left.align = '<';
  if (spec.zero && !spec.align) left.fill = "0";
  left.zero = false;
  return assemble(run, false, "", std::string(text), left);
}

}  // namespace bantam::inline v0::jinja
