// How far two distributions over a vocabulary are from each other.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace bantam::inline v0 {

/// log(sum(e^x)) in double precision.
[[nodiscard]] inline double log_sum_exp(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x - largest));
  return std::log(sum) + static_cast<double>(largest);
}

/// KL(base || other) in nats, of logits; the norms are their log_sum_exp.
[[nodiscard]] inline double divergence(std::span<const float> base, double base_norm, std::span<const float> other, double other_norm) {
  double kl = 0;
  for (std::size_t i = 0; i < base.size(); ++i) {
    const double log_p = static_cast<double>(base[i]) - base_norm;
    kl += std::exp(log_p) * (log_p - (static_cast<double>(other[i]) - other_norm));
  }
  return kl;
}

}  // namespace bantam::inline v0
