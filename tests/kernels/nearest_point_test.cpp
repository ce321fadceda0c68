// The nearest of some points, on every instruction set.
#include "bantam/simd/nearest_point.hpp"

#include <limits>

#include "bantam/kernels/table.hpp"
#include "bantam/tensor/random.hpp"
#include "quant/metrics.hpp"
#include "support.hpp"

namespace bantam::test {

TEST_CASE("the nearest point is that of a search in double precision, on every instruction set") {
  for (const int dims : {4, 8}) {
    const int count = 272;
    const auto points = random::normal<float>({dims, count}, 3, {.deviation = 2});
    for (int t = 0; t < 40; ++t) {
      const auto target = random::normal<float>({1, dims}, static_cast<std::uint64_t>(100 + t), {.deviation = 2});
      const Metric metric = some_metric(dims, static_cast<std::uint64_t>(t));
      const VectorMetric factored = packed(metric, dims);
      std::vector<float> weights;
      for (int i = 0; i < dims; ++i) weights.push_back(factored.moments[static_cast<std::size_t>(i * dims + i)]);
      for (const bool by_factor : {false, true}) {
        const auto cost_of = [&](int p) {
          double error[most_columns], sum = 0;
          for (int i = 0; i < dims; ++i) {
            error[i] = static_cast<double>(points(i, p)) - static_cast<double>(target(0, i));
            sum += static_cast<double>(weights[static_cast<std::size_t>(i)]) * error[i] * error[i];
          }
          return by_factor ? cost(metric, error, dims) : sum;
        };
        double least = std::numeric_limits<double>::infinity();
        for (int p = 0; p < count; ++p) least = std::min(least, cost_of(p));
        int first = -1;
        for (const KernelTable* kernels : kernel_tables()) {
          const int found = kernels->nearest_point({.points = points.data(), .dims = dims, .count = count, .target = target.data(),
                                                    .factor = by_factor ? factored.factor.data() : nullptr, .weights = weights.data()});
          CHECK(cost_of(found) <= least * (1 + 1e-5));
          if (first < 0) first = found;
          CHECK(found == first);
        }
      }
    }
  }
}

TEST_CASE("of equally near points the first is taken, on every instruction set") {
  std::vector<float> points(8 * 32, 1.0f);
  const float target[8] = {}, weights[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  for (int i = 0; i < 8; ++i) points[static_cast<std::size_t>(i * 32 + 21)] = points[static_cast<std::size_t>(i * 32 + 19)] = 0.5f;
  for (const KernelTable* kernels : kernel_tables()) CHECK(kernels->nearest_point({.points = points.data(), .count = 32, .target = target, .weights = weights}) == 19);
}

}  // namespace bantam::test
