// Trellis-coded weights: two and fewer bits a weight, whose values are computed from a stream of bits.
#pragma once

#include <algorithm>

#include "bantam/quant/trellis_search.hpp"

namespace bantam::inline v0 {

/// Fits the scales of one block, or the rest of a row, as they will be stored.
template <class F>
void fit_trellis(std::span<const float> weights, std::span<const float> importance, std::span<GroupSide> sides) {
  for (std::size_t g = 0; g < sides.size(); ++g) {
    const std::size_t first = std::min(weights.size(), g * F::group), count = std::min<std::size_t>(F::group, weights.size() - first);
    const std::span<const float> shares = importance.empty() ? importance : importance.subspan(first, count);
    sides[g] = {};
    sides[g].scale = float(f16(fit_trellis_scale(weights.subspan(first, count), shares)));
  }
}

/// w = s v: v a number computed from the last 16 bits of a stream that takes StepBits more for every two weights (simd/trellis.hpp;
/// after QTIP, arXiv:2406.11235). Scales are fitted to the weights, then the path is searched that leaves the least error.
template <int StepBits, int Group>
struct Trellis {
  static_assert(StepBits >= 3 && StepBits <= 6 && (Group == 128 || (Group == 64 && StepBits == 4)));
  static constexpr std::string_view name = Group == 64 ? "t2.g64" : StepBits == 3 ? "t1h.g128" : StepBits == 4 ? "t2.g128" : StepBits == 5 ? "t2h.g128" : "t3.g128";
  static constexpr FormatId id{static_cast<std::uint16_t>((Group == 64 ? 0x0090 : 0x0080) + StepBits)};
  static constexpr int group = Group;
  using Plane = plane::Trellis<StepBits>;
  using Scale = scale::F16;
  using Zero = zero::None;

  /// By few paths, and portable code.
  static void encode(std::span<const float> weights, std::int8_t* codes, std::span<GroupSide> sides) {
    fit_trellis<Trellis>(weights, {}, sides);
    round_to_trellis(StepBits, weights, {}, sides, Group, portable_paths(), 32, codes);
  }
};

}  // namespace bantam::inline v0
