// The matrix product in double precision.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace bantam::reference {

/// y = x wT. x: (tokens, columns), w: (rows, columns), y: (tokens, rows).
inline std::vector<double> matmul(const std::vector<double>& x, const std::vector<double>& w, std::int64_t tokens,
                                  std::int64_t rows, std::int64_t columns) {
  std::vector<double> y(static_cast<std::size_t>(tokens * rows));
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < columns; ++c) {
        sum += x[static_cast<std::size_t>(t * columns + c)] * w[static_cast<std::size_t>(r * columns + c)];
      }
      y[static_cast<std::size_t>(t * rows + r)] = sum;
    }
  }
  return y;
}

/// sum |x w|: what rounding errors of a product are measured against.
inline std::vector<double> matmul_magnitude(std::vector<double> x, std::vector<double> w, std::int64_t tokens,
                                            std::int64_t rows, std::int64_t columns) {
  for (double& v : x) v = std::fabs(v);
  for (double& v : w) v = std::fabs(v);
  return matmul(x, w, tokens, rows, columns);
}

}  // namespace bantam::reference
