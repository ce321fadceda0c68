// The smallest of some scores, of equal ones the first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace bantam::inline v0 {

/// Marks the `count` smallest. Linear in their number; none of them may be NaN.
template <class T>
void mark_smallest(std::span<const T> scores, std::size_t count, std::span<std::uint8_t> marks) {
  if (count == 0) return;
  std::vector<T> copy(scores.begin(), scores.end());
  const auto last = copy.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(copy.begin(), last, copy.end());
  const T bound = *last;
  auto equals = static_cast<std::ptrdiff_t>(count) - std::ranges::count_if(scores, [&](T score) { return score < bound; });
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] < bound || (scores[i] == bound && equals-- > 0)) marks[i] = 1;
  }
}

/// The same without memory of its own, for a few scores; `marks` are 0 before.
template <class T>
void mark_smallest_of_few(std::span<const T> scores, int count, std::span<std::uint8_t> marks) {
  for (int k = 0; k < count; ++k) {
    std::size_t best = scores.size();
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (marks[i] == 0 && (best == scores.size() || scores[i] < scores[best])) best = i;
    }
    marks[best] = 1;
  }
}

}  // namespace bantam::inline v0
