// Choices by their names, and patterns of names.
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

/// Whether a name matches a pattern with * (any text) and ? (any character).
[[nodiscard]] inline bool matches(std::string_view name, std::string_view pattern) noexcept {
  // Greedy with one point to come back to: linear but for the lengths of the two.
  std::size_t n = 0, p = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace bantam::inline v0
