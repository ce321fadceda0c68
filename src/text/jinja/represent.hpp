// Values as text: str(), repr() and JSON as Python writes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/run.hpp"

namespace bantam::inline v0::jinja {

[[nodiscard]] std::string to_text(Run& run, const Value& value);    ///< str()
[[nodiscard]] std::string represent(Run& run, const Value& value);  ///< repr()
[[nodiscard]] std::string represent_real(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  ///< what one level is indented by; none: one line
  std::string_view item_separator = ", ";
  std::string_view key_separator = ": ";
  bool sort_keys = false;
};
/// json.dumps. Fails for what JSON has no word for.
[[nodiscard]] std::string to_json(Run& run, const Value& value, const JsonStyle& style);

}  // namespace bantam::inline v0::jinja
