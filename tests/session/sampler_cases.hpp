// What tests of the sampler share.
#pragma once

#include <limits>
#include <vector>

#include "bantam/core/random.hpp"
#include "bantam/session/sampler.hpp"
#include "support.hpp"

namespace bantam::test {

inline constexpr float infinity = std::numeric_limits<float>::infinity();

/// Every stage off.
inline Sampling plain() {
  static const Sampling off = {.temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f};
  return off;
}

inline std::vector<float> random_logits(std::size_t count, std::uint64_t seed, double spread) {
  Random random(seed);
  std::vector<float> result(count);
  for (float& x : result) x = static_cast<float>(spread * random.normal());
  return result;
}

}  // namespace bantam::test
