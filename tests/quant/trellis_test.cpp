// Trellis-coded weights: where their bits lie, what they stand for, and how paths are found.
#include <cmath>

#include "bantam/core/random.hpp"
#include "bantam/kernels/of_format.hpp"
#include "bantam/quant/trellis_search.hpp"
#include "bantam/quant/weights.hpp"
#include "bantam/tensor/random.hpp"
#include "reference/trellis.hpp"
#include "support.hpp"

using namespace bantam;

TEST_CASE("bytes of every trellis stand for what docs/formats.md says") {
  Random random(31);
  for_each_format([&](auto format) {
    using F = typename decltype(format)::type;
    using L = Strip16<F>;
    if constexpr (L::trellis) {
      CAPTURE(std::string(F::name));
      for (const std::int64_t columns : {64, 256, 300, 700}) {
        std::vector<std::byte> panel(static_cast<std::size_t>(L::panel_bytes(columns)));
        for (std::byte& byte : panel) byte = static_cast<std::byte>(random.next() & 0x3b);
        for (const int row : {0, 5, 16, 31}) {
          std::vector<float> found(static_cast<std::size_t>(columns)), expected;
          RowCodes scratch;
          decode_row<F>(panel.data(), row, found, scratch);
          std::size_t at = 0;
          for (std::int64_t first = 0; first < columns; first += 256) {
            const int k = static_cast<int>(std::min<std::int64_t>(256, L::padded_columns(columns) - first));
            const int groups = k / F::group, n = row % 16, strip = row / 16;
            const std::size_t scales = at + static_cast<std::size_t>(strip * groups * 32);
            std::size_t planes = at + static_cast<std::size_t>(2 * groups * 32);
            planes = (planes + 63) / 64 * 64;
            const int step_bits = bantam::step_bits<typename F::Plane>, plane_bytes = k * step_bits;
            const auto* plane = reinterpret_cast<const std::uint8_t*>(panel.data() + planes + static_cast<std::size_t>(strip * plane_bytes));
            const auto values = reference::trellis_values(reference::stream_of(plane, n, k, step_bits), k, step_bits);
            for (int c = 0; c < k && first + c < columns; ++c) {
              const float scale = float(detail::load_as<f16>(panel.data() + scales + static_cast<std::size_t>(c / F::group * 32 + n * 2)));
              expected.push_back(scale * static_cast<float>(values[static_cast<std::size_t>(c)]));
            }
            at = (planes + static_cast<std::size_t>(2 * plane_bytes) + 63) / 64 * 64;
          }
          CHECK(found == expected);
        }
      }
    }
  });
}

namespace {

/// The least that any path of some steps costs, in double precision.
double least_cost(const TrellisTask& task, std::size_t step, std::uint32_t state, std::vector<double> wanted) {
  if (2 * step == wanted.size()) return 0;
  double least = INFINITY;
  for (std::uint32_t bits = 0; bits < 1u << task.step_bits; ++bits) {
    const std::uint32_t next = (state << task.step_bits | bits) & 0xffff;
    std::vector<double> left = wanted;
    double cost = 0;
    for (std::size_t i = 2 * step; i < 2 * step + 2; ++i) {
      const double value = static_cast<double>(task.scales[i]) * simd::trellis_weight(next, static_cast<int>(i % 2));
      const double error = (left[i] - value) * static_cast<double>(task.shares[i]);
      cost += error * error;
      for (std::size_t j = i + 1; task.factor != nullptr && j < left.size(); ++j) left[j] -= error * static_cast<double>(task.factor[static_cast<std::ptrdiff_t>(i) * task.stride + static_cast<std::ptrdiff_t>(j)]);
    }
    least = std::min(least, cost + least_cost(task, step + 1, next, left));
  }
  return least;
}

/// What a path costs.
double cost_of(const TrellisTask& task, std::span<const std::uint8_t> steps) {
  std::vector<std::int8_t> levels(2 * steps.size());
  resolve_steps(task.step_bits, steps, levels);
  std::vector<double> left(task.wanted.begin(), task.wanted.end());
  double cost = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const double error = (left[i] - static_cast<double>(task.scales[i]) * levels[i]) * static_cast<double>(task.shares[i]);
    cost += error * error;
    for (std::size_t j = i + 1; task.factor != nullptr && j < left.size(); ++j) left[j] -= error * static_cast<double>(task.factor[static_cast<std::ptrdiff_t>(i) * task.stride + static_cast<std::ptrdiff_t>(j)]);
  }
  return cost;
}

}  // namespace

TEST_CASE("a search that drops no path finds the best one, errors taking from later columns or not") {
  for (const int step_bits : {3, 4, 5}) {
    for (const bool takes : {false, true}) {
      CAPTURE(step_bits);
      CAPTURE(takes);
      const std::size_t places = step_bits == 3 ? 8 : 6;
      const auto numbers = random::normal<float>({3 + static_cast<std::int64_t>(places), static_cast<std::int64_t>(places)}, 32);
      std::vector<float> scales, shares;
      for (std::size_t i = 0; i < places; ++i) {
        scales.push_back((1 + 0.2f * numbers.data()[places + i]) / 46);
        shares.push_back(std::exp(0.3f * numbers.data()[2 * places + i]));
      }
      const TrellisTask task{.step_bits = step_bits,
                             .wanted = {numbers.data(), places},
                             .scales = scales,
                             .shares = shares,
                             .factor = takes ? numbers.data() + 3 * places : nullptr,
                             .stride = static_cast<std::ptrdiff_t>(places),
                             .paths = 1 << 16};
      std::vector<std::uint8_t> steps(places / 2);
      find_path(task, portable_paths(), steps);
      const double least = least_cost(task, 0, 0, {task.wanted.begin(), task.wanted.end()});
      CHECK(cost_of(task, steps) == doctest::Approx(least).epsilon(1e-5));
    }
  }
}

TEST_CASE("every table finds the same path, long ones too, and more paths find a better one") {
  const std::size_t places = 256;
  const auto numbers = random::normal<float>({2 + static_cast<std::int64_t>(places), static_cast<std::int64_t>(places)}, 33, {.deviation = 0.1});
  std::vector<float> wanted, scales(places, 1.0f / 46), shares(places, 1.0f);
  for (std::size_t i = 0; i < places; ++i) wanted.push_back(10 * numbers.data()[i]);
  const float* factor = nullptr;
  for (const bool takes : {false, true}) {
    CAPTURE(takes);
    if (takes) factor = numbers.data() + 2 * places;
    for (const int step_bits : {3, 4, 5, 6}) {
      CAPTURE(step_bits);
      double before = INFINITY;
      for (const int paths : {1, 16, 128}) {
        const TrellisTask task{.step_bits = step_bits, .wanted = wanted, .scales = scales, .shares = shares, .factor = factor, .stride = static_cast<std::ptrdiff_t>(places), .paths = paths};
        std::vector<std::uint8_t> expected(places / 2);
        find_path(task, portable_paths(), expected);
        for (const KernelTable* table : kernel_tables()) {
          CAPTURE(std::string(table->name));
          std::vector<std::uint8_t> found(places / 2);
          find_path(task, table->paths, found);
          CHECK(found == expected);
        }
        const double cost = cost_of(task, expected);
        CHECK(cost < before);
        before = cost;
      }
    }
  }
}

TEST_CASE("normal weights lose little more than the bound of their rate, and columns that are not there cost nothing") {
  const auto w = random::normal<float>({12, 512}, 34);
  // What is lost at most, of the weights' square: Shannon's bound times this.
  for_each_format([&](auto format) {
    using F = typename decltype(format)::type;
    if constexpr (Strip16<F>::trellis) {
      CAPTURE(std::string(F::name));
      const double bound = std::exp2(-bantam::step_bits<typename F::Plane>), lost = std::pow(relative_error(w, quantize<F>(w).dequantize()), 2);
      CHECK(lost > bound);
      CHECK(lost < (bantam::step_bits<typename F::Plane> < 6 ? 1.35 : 1.5) * bound);
      const auto part = w.view().slice(1, 0, 70);
      CHECK(std::pow(relative_error(part, quantize<F>(part).dequantize()), 2) < 1.6 * bound);
    }
  });
}
