// Choices by their names, and patterns of names.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bantam::inline v0 {

/// The place of `name` in a list. Throws invalid_argument listing all of them; `what` says what they are names of.
[[nodiscard]] std::size_t find_name(std::string_view what, std::string_view name, std::span<const std::string_view> names);

/// Which of `names` somebody may have meant who typed `name`, the nearest first and three at most: names that begin with it, and
/// those a few slips away (letters added, left out, changed or swapped; case does not count), fewer for short names.
[[nodiscard]] std::vector<std::string_view> nearest_names(std::string_view name, std::span<const std::string_view> names);
/// "; did you mean gptq?" or "; did you mean i4.g32, i4.g64 or i4.g128?"; empty where nothing is near.
[[nodiscard]] std::string did_you_mean(std::string_view name, std::span<const std::string_view> names);

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
