// Codes that are entries of a grid: metrics, and what is chosen in them against brute force in double precision.
#include "bantam/quant/vector_codes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "bantam/quant/format_info.hpp"
#include "bantam/tensor/random.hpp"
#include "limits.hpp"
#include "quant/iq_grids.hpp"
#include "quant/metrics.hpp"
#include "support.hpp"

namespace bantam::test {

TEST_CASE("metrics are their factors squared, and that of an inverse's factor is what errors cost in GPTQ's recursion") {
  for (const int n : {4, 8}) {
    const Metric metric = some_metric(n, 9);
    const VectorMetric found = packed(metric, n);
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        CHECK(static_cast<double>(found.moments[static_cast<std::size_t>(i * n + j)]) == doctest::Approx(metric[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)]).epsilon(1e-5));
        if (j > i) CHECK(found.factor[static_cast<std::size_t>(i * n + j)] == 0);
      }
    }
    const auto u = random::normal<float>({n, n}, 4, {.mean = 1, .deviation = 0.3}), error = random::normal<float>({1, n}, 5);
    const VectorMetric inverse = metric_of_inverse_factor(n, [&](int i, int j) { return u(i, j); });
    std::vector<double> left;
    for (int i = 0; i < n; ++i) left.push_back(static_cast<double>(error(0, i)));
    double paid = 0, counted = 0;
    for (int i = 0; i < n; ++i) {
      const double e = left[static_cast<std::size_t>(i)] / static_cast<double>(u(i, i));
      paid += e * e;
      for (int j = i + 1; j < n; ++j) left[static_cast<std::size_t>(j)] -= e * static_cast<double>(u(i, j));
      double y = 0;
      for (int j = 0; j <= i; ++j) y += static_cast<double>(inverse.factor[static_cast<std::size_t>(i * n + j)]) * static_cast<double>(error(0, j));
      counted += y * y;
    }
    CHECK(counted == doctest::Approx(paid).epsilon(1e-4));
  }
}

TEST_CASE("vectors of codes are within a few percent of the nearest of all that blocks can hold") {
  struct Kind {
    std::string_view name;
    std::span<const std::uint16_t> entries;
    int dims, bits;
    bool signs, even;
  };
  using namespace gguf;
  const Kind kinds[] = {{"iq3_s", grid::iq3_s, 4, 3, true, false},   {"iq3_xxs", grid::iq3_xxs, 4, 3, true, true}, {"iq2_s", grid::iq2_s, 8, 2, true, false},
                        {"iq2_xs", grid::iq2_xs, 8, 2, true, true},  {"iq2_xxs", grid::iq2_xxs, 8, 2, true, true}, {"iq1_m", grid::iq1_s, 8, 2, false, false},
                        {"iq1_s", grid::iq1_s, 8, 2, false, false}};
  GroupSide side;
  side.scale = 1;
  for (const FormatInfo& format : vector_formats()) {
    CAPTURE(std::string(format.name));
    const auto kind = std::ranges::find_if(kinds, [&](const Kind& k) { return format.name.starts_with(std::string(k.name) + "."); });
    REQUIRE(kind != std::end(kinds));
    const int n = format.vectors->columns, d = kind->dims;
    const std::int64_t targets = quick() ? 2 : 8;
    const auto wanted = random::normal<float>({targets, n}, 6, {.deviation = !kind->signs ? 0.8 : kind->bits == 2 ? 2.5 : 6.0});
    double ours = 0, least = 0;
    for (std::int64_t t = 0; t < targets; ++t) {
      const Metric metric = some_metric(n, static_cast<std::uint64_t>(t));
      const VectorMetric given = packed(metric, n);
      std::int8_t chosen[most_columns];
      format.vectors->round(&wanted(t, 0), given, side, chosen, portable_nearest_point());
      double error[most_columns];
      for (int i = 0; i < n; ++i) error[i] = static_cast<double>(wanted(t, i)) - static_cast<double>(format.decode_code(chosen[i], side));
      ours += cost(metric, error, n);
      // Of each part all entries with all signs: F e, a row a part, by the number of negative weights.
      using Rows = std::array<double, most_columns>;
      std::vector<Rows> parts[2][2];  // of a part, whose signs are even or odd
      for (int from = 0; from < n; from += d) {
        for (const unsigned entry : kind->entries) {
          for (unsigned signs = 0; signs < (kind->signs ? 1u << d : kind->name == "iq1_m" ? 2u : 1u); ++signs) {
            Rows rows{};
            for (int i = 0; i < d; ++i) {
              const unsigned digit = entry >> i * kind->bits & ((1u << kind->bits) - 1);
              const int code = kind->signs ? static_cast<int>(digit | (signs >> i & 1u) << 3) : grid::ternary_codes[signs][digit];
              const double e = static_cast<double>(wanted(t, from + i)) - static_cast<double>(format.decode_code(code, side));
              for (int r = 0; r < n; ++r) rows[static_cast<std::size_t>(r)] += static_cast<double>(given.factor[static_cast<std::size_t>(r * n + from + i)]) * e;
            }
            parts[from / d][kind->even && std::popcount(signs) % 2 != 0].push_back(rows);
          }
        }
      }
      double best = std::numeric_limits<double>::infinity();
      const auto size = [&](const Rows& a, const Rows& b) {
        double sum = 0;
        for (std::size_t r = 0; r < most_columns; ++r) sum += (a[r] + b[r]) * (a[r] + b[r]);
        return sum;
      };
      for (const int parity : {0, 1}) {
        if (n == d) {
          if (parity == 0) {
            for (const Rows& rows : parts[0][0]) best = std::min(best, size(rows, {}));
          }
          continue;
        }
        for (const Rows& first : parts[0][parity]) {
          for (const Rows& second : parts[1][parity]) best = std::min(best, size(first, second));
        }
      }
      least += best;
    }
    CHECK(ours >= least * (1 - 1e-4));
    CHECK(ours < (quick() ? 1.5 : 1.15) * least);  // of two targets one may be unlucky
  }
}

}  // namespace bantam::test
