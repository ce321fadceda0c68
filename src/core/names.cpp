// Looking names up, and guessing which was meant.
#include "bantam/core/names.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

namespace {

// Longer names are nobody's slip, and the time is quadratic in the length.
constexpr std::size_t longest_name = 64;
constexpr std::size_t most_guesses = 3;

char folded(char c) noexcept { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

/// Damerau's distance in its restricted form: letters added, left out, changed, or swapped with the next.
std::size_t slips_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = last[j - 1] + (folded(a[i - 1]) == folded(b[j - 1]) ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, change});
      const bool swapped = i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) && folded(a[i - 2]) == folded(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

bool begins_with(std::string_view name, std::string_view beginning) noexcept {
  return name.size() >= beginning.size() && std::ranges::equal(name.substr(0, beginning.size()), beginning, {}, folded, folded);
}

}  // namespace

std::size_t find_name(std::string_view what, std::string_view name, std::span<const std::string_view> names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return i;
  }
  fail(Errc::invalid_argument, what, ": expected one of ", with_commas(names), ", found ", printable(name), did_you_mean(name, names));
}

std::vector<std::string_view> nearest_names(std::string_view name, std::span<const std::string_view> names) {
  if (name.empty() || name.size() > longest_name) return {};
  // One slip in up to four letters, two in up to eight, then three.
  const std::size_t most_slips = std::min<std::size_t>(3, (name.size() + 3) / 4);
  std::vector<std::pair<std::size_t, std::string_view>> near;
  for (const std::string_view candidate : names) {
    if (candidate.size() > longest_name) continue;
    const std::size_t slips = slips_between(name, candidate);
    // All letters changed is another word.
    if ((slips <= most_slips && slips < name.size() && slips < candidate.size()) || begins_with(candidate, name)) near.emplace_back(slips, candidate);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string_view> found;
  for (const auto& [slips, candidate] : near) {
    if (found.size() == most_guesses) break;
    if (std::ranges::find(found, candidate) == found.end()) found.push_back(candidate);
  }
  return found;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> names) {
  const std::vector<std::string_view> near = nearest_names(name, names);
  std::string text;
  for (std::size_t i = 0; i < near.size(); ++i) text += message(i == 0 ? "; did you mean " : i + 1 == near.size() ? " or " : ", ", near[i]);
  return text.empty() ? text : text + "?";
}

}  // namespace bantam::inline v0
