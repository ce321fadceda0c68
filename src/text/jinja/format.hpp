// Numbers and texts under a format: digits, signs, width.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/text_methods.hpp"

namespace bantam::inline v0::jinja {

/// Digits behind a point at most: more than any double has.
inline constexpr int max_precision = 1100;

/// printf's %.<precision>f, correctly rounded, in any locale.
[[nodiscard]] std::string fixed_digits(double value, int precision);

/// What stands between '%' and its letter, or behind ':' in braces.
struct FormatSpec {
  std::string_view fill = " ";  ///< one character, of the specification or a literal
  char align = '\0';  ///< < > ^ =
  char sign = '-';    ///< - + or space
  bool alternate = false, zero = false;
  char grouping = '\0';  ///< , or _
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char type = '\0';
};

[[nodiscard]] std::string format_integer(Run& run, std::int64_t value, const FormatSpec& spec);
[[nodiscard]] std::string format_real(Run& run, double value, const FormatSpec& spec);
[[nodiscard]] std::string format_string(Run& run, std::string_view text, const FormatSpec& spec);

}  // namespace bantam::inline v0::jinja
