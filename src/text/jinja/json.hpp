// JSON text to values.
#pragma once

#include <string_view>

#include "text/jinja/run.hpp"

namespace bantam::inline v0::jinja {

/// The value of a JSON text. Throws invalid_argument with `place`: no JSON, nested too deep, an integer beyond 64 bits.
[[nodiscard]] Value parse_json(std::string_view json, const std::string& place);

}  // namespace bantam::inline v0::jinja
