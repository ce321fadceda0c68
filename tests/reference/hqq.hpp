// HQQ's solver in double precision, one group: codes and zero in turn (Badri and Shaji, 2023, section "the solver"), with
// errors counted in steps of the grid.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace bantam::reference {

struct HqqGroup {
  double scale = 0;
  double zero = 0;  ///< w = scale (q - zero)
  double error = 0; ///< sum |(w - w') / scale|^0.7
};

inline HqqGroup hqq_group(const std::vector<double>& w, int bits) {
  const double largest = (1 << bits) - 1;
  const auto [low, high] = std::minmax_element(w.begin(), w.end());
  HqqGroup best{(*high - *low) / largest, 0, 1e300};
  double zero = -*low / best.scale;
  for (int round = 0; round < 20; ++round) {
    const double beta = 10 * std::pow(1.01, round);
    std::vector<double> q(w.size()), error(w.size());
    double sum = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      q[i] = std::clamp(std::nearbyint(w[i] / best.scale + zero), 0.0, largest);
      error[i] = w[i] / best.scale - (q[i] - zero);
      sum += std::pow(std::fabs(error[i]), 0.7);
    }
    if (sum >= best.error) break;
    best.error = sum;
    best.zero = zero;
    zero = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double size = std::fabs(error[i]);
      const double shrunk = size == 0 ? 0 : std::max(0.0, size - std::pow(size, -0.3) / beta) * (error[i] < 0 ? -1 : 1);
      zero += (q[i] - (w[i] / best.scale - shrunk)) / static_cast<double>(w.size());
    }
  }
  return best;
}

}  // namespace bantam::reference
