// Scores that shrink with distance, in the place of positions (Press et al., arXiv:2108.12409).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bantam::inline v0::nn {

/// The slope of each head: a score gets -slope for each token that its key is behind the query. Of n heads, a power of two, head i from 1 on
/// has 2^(-most i / n); other numbers of heads have those of the power below, then every other one of the power above, as the paper's code
/// does. The paper's `most` is 8.
[[nodiscard]] inline std::vector<float> alibi_slopes(std::int64_t heads, double most) {
  const auto below = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  std::vector<float> slopes;
  for (std::int64_t h = 0; h < heads; ++h) {
    const double exponent = h < below ? static_cast<double>(h + 1) / static_cast<double>(below) : static_cast<double>(2 * (h - below) + 1) / static_cast<double>(2 * below);
    slopes.push_back(static_cast<float>(std::exp2(-most * exponent)));
  }
  return slopes;
}

}  // namespace bantam::inline v0::nn
