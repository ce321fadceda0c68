// Rounding to GGUF's types whose codes are entries of a grid: against brute force in double precision, and through their blocks.
#include "bantam/compress/vector_metric.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "bantam/compress/descent.hpp"
#include "bantam/compress/gptq.hpp"
#include "bantam/compress/nearest.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/model/source_type.hpp"
#include "compress/inputs.hpp"
#include "limits.hpp"
#include "quant/iq_grids.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

constexpr std::size_t most = VectorMetric::most_columns;
using Metric = std::array<std::array<double, most>, most>;

/// Inputs of neighbors are alike.
Metric some_metric(int columns, std::uint64_t seed) {
  const auto x = correlated_inputs(24, columns, seed);
  Metric m{};
  for (int i = 0; i < columns; ++i) {
    for (int j = 0; j < columns; ++j) {
      for (std::int64_t t = 0; t < 24; ++t) m[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] += static_cast<double>(x(t, i)) * static_cast<double>(x(t, j)) / 24;
    }
    m[static_cast<std::size_t>(i)][static_cast<std::size_t>(i)] += 0.05;
  }
  return m;
}

VectorMetric packed(const Metric& metric, int n) {
  std::vector<double> moments;
  for (int i = 0; i < n; ++i) moments.insert(moments.end(), metric[static_cast<std::size_t>(i)].begin(), metric[static_cast<std::size_t>(i)].begin() + n);
  return metric_of_moments(moments, n);
}

double cost(const Metric& metric, const double* error, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) sum += error[i] * metric[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] * error[j];
  }
  return sum;
}

const SourceType& type_of(const FormatInfo& format) {
  const SourceType* type = source_type_of(format);
  REQUIRE(type != nullptr);
  return *type;
}

/// A row through the bytes of the file's type: (codes, sides) read again.
RowCodes through_file(const FormatInfo& format, const RowCodes& row, std::int64_t columns) {
  const SourceType& type = type_of(format);
  std::vector<std::byte> bytes(static_cast<std::size_t>(type.row_bytes(columns)), std::byte{0xa5});
  type.write_codes(row.codes.data(), row.sides.data(), columns, bytes.data());
  RowCodes again{std::vector<std::int8_t>(static_cast<std::size_t>(columns)), std::vector<GroupSide>(static_cast<std::size_t>(columns / format.group))};
  type.read_codes(bytes.data(), columns, again.codes.data(), again.sides.data());
  return again;
}

double relative_error(TensorView<const float, 2> w, const Tensor<float, 2>& found) {
  double difference = 0, size = 0;
  for (std::int64_t r = 0; r < w.extent(0); ++r) {
    for (std::int64_t c = 0; c < w.extent(1); ++c) {
      const double d = static_cast<double>(w(r, c)) - static_cast<double>(found(r, c));
      difference += d * d;
      size += static_cast<double>(w(r, c)) * static_cast<double>(w(r, c));
    }
  }
  return std::sqrt(difference / size);
}

}  // namespace

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
          double error[most], sum = 0;
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
      std::int8_t chosen[most];
      format.vectors->round(&wanted(t, 0), given, side, chosen);
      double error[most];
      for (int i = 0; i < n; ++i) error[i] = static_cast<double>(wanted(t, i)) - static_cast<double>(format.decode_code(chosen[i], side));
      ours += cost(metric, error, n);
      // Of each part all entries with all signs: F e, a row a part, by the number of negative weights.
      using Rows = std::array<double, most>;
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
        for (std::size_t r = 0; r < most; ++r) sum += (a[r] + b[r]) * (a[r] + b[r]);
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

TEST_CASE("what is rounded goes through a block of the file and back, value by value") {
  const std::int64_t columns = 512;
  const auto w = random::normal<float>({6, columns}, 5, {.deviation = 0.05});
  std::vector<float> importance;
  for (std::int64_t c = 0; c < columns; ++c) importance.push_back(1 + static_cast<float>(c % 7));
  double finer = 0;
  for (const FormatInfo& format : vector_formats()) {  // the finest first
    CAPTURE(std::string(format.name));
    for (const bool weighed : {false, true}) {
      const WeightMatrix rounded = nearest(w, format, {.importance = weighed ? std::span<const float>(importance) : std::span<const float>()});
      const Tensor<float, 2> values = rounded.dequantize();
      for (std::int64_t r = 0; r < 6; ++r) {
        RowCodes row;
        format.load_codes(rounded.view().data, static_cast<int>(r), columns, row);
        const RowCodes again = through_file(format, row, columns);
        for (std::int64_t c = 0; c < columns; ++c) {
          REQUIRE(format.decode_code(again.codes[static_cast<std::size_t>(c)], again.sides[static_cast<std::size_t>(c / format.group)]) == values(r, c));
        }
      }
      if (weighed) continue;
      const double error = relative_error(w, values);
      CHECK(error > finer);
      CHECK(error < 0.7);
      finer = error;
    }
  }
}

TEST_CASE("gptq in vectors leaves less error in the outputs than rounding, descent less than that, and blocks hold all of it") {
  const std::int64_t rows = 24, columns = 512;
  const auto w = random::normal<float>({rows, columns}, 7, {.deviation = 0.05});
  const auto x = correlated_inputs(1200, columns, 8);
  Hessian hessian(columns);
  hessian.add(x);
  for (const FormatInfo& format : vector_formats()) {
    CAPTURE(std::string(format.name));
    const std::vector<float> squares = hessian.mean_squares();
    const double rounded = output_error(w, nearest(w, format, {.importance = squares}).dequantize(), x);
    const GptqResult alone = gptq(w, hessian, format, {.sweeps = 0}), moved = gptq(w, hessian, format);
    const double by_gptq = output_error(w, alone.weights.dequantize(), x), after = output_error(w, moved.weights.dequantize(), x);
    CHECK(by_gptq < 0.8 * rounded);
    CHECK(after < by_gptq);
    for (std::int64_t r = 0; r < rows; ++r) {
      RowCodes row;
      format.load_codes(moved.weights.view().data, static_cast<int>(r), columns, row);
      const RowCodes again = through_file(format, row, columns);
      REQUIRE(std::equal(again.codes.begin(), again.codes.end(), row.codes.begin()));
      for (std::size_t g = 0; g < again.sides.size(); ++g) REQUIRE(again.sides[g].scale == row.sides[g].scale);
    }
  }
}

TEST_CASE("weights that are too large for a scale show it, and zeros stay near zero") {
  auto w = random::normal<float>({2, 256}, 7, {.deviation = 1e30});
  const Tensor<float, 2> zeros({2, 256});
  for (const FormatInfo& format : vector_formats()) {
    CAPTURE(std::string(format.name));
    const Tensor<float, 2> large = nearest(w, format).dequantize();
    CHECK(std::ranges::none_of(large.span(), [](float x) { return std::isfinite(x); }));
    CHECK(std::ranges::all_of(nearest(zeros, format).dequantize().span(), [](float x) { return x == 0; }));
  }
}

TEST_CASE("rows that end in the midst of a vector are refused") {
  const auto w = random::normal<float>({2, 250}, 7);
  for (const FormatInfo& format : vector_formats()) {
    has(error_of([&] { (void)nearest(w, format); }), "expected rows of whole vectors");
  }
}

}  // namespace bantam::test
