// Softmax in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace bantam::reference {

/// softmax(x), shifted by its maximum.
inline std::vector<double> softmax(std::vector<double> x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v - largest);
  for (double& v : x) v /= sum;
  return x;
}

}  // namespace bantam::reference
