// Choices by their names.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

/// The place of `name` in a list. Throws invalid_argument listing all of them; `what` says what they are names of.
[[nodiscard]] inline std::size_t find_name(std::string_view what, std::string_view name, std::span<const std::string_view> names) {
  std::string known;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return i;
    known += message(i == 0 ? "" : ", ", names[i]);
  }
  fail(Errc::invalid_argument, what, ": expected one of ", known, ", found ", printable(name));
}

}  // namespace bantam::inline v0
