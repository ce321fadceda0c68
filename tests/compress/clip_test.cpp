// How far grids follow the largest weights: range, least squared error and percentiles, against searches in double precision.
#include <algorithm>
#include <cmath>
#include <functional>

#include "bantam/compress/compress.hpp"
#include "bantam/tensor/random.hpp"
#include "compress/inputs.hpp"
#include "limits.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

constexpr std::int64_t rows = 48, columns = 96, group = 32;

/// A few weights far out, as models have them.
Tensor<float, 2> some_weights() {
  auto w = random::normal<float>({rows, columns}, 71, {.deviation = 0.05});
  for (std::size_t i = 0; i < w.span().size(); i += 37) w.data()[i] *= 2.5f;
  return w;
}

using Group = std::vector<double>;

/// Calls f with each group's weights and what became of them.
void for_groups(const Tensor<float, 2>& w, const WeightMatrix& rounded, std::int64_t size,
                const std::function<void(const Group& weights, const Group& found)>& f) {
  const Tensor<float, 2> decoded = rounded.dequantize();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t first = 0; first < columns; first += size) {
      Group weights, found;
      for (std::int64_t c = first; c < first + size; ++c) {
        weights.push_back(static_cast<double>(w(r, c)));
        found.push_back(static_cast<double>(decoded(r, c)));
      }
      f(weights, found);
    }
  }
}

double squared(const Group& a, const Group& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

double squared(const Tensor<float, 2>& w, const WeightMatrix& rounded) {
  double sum = 0;
  for_groups(w, rounded, columns, [&](const Group& a, const Group& b) { sum += squared(a, b); });
  return sum;
}

/// Weights rounded to scale * k + offset, k a whole number within low .. high.
Group on_grid(const Group& weights, double scale, double offset, double low, double high) {
  Group rounded;
  for (const double w : weights) rounded.push_back(scale * std::clamp(std::nearbyint((w - offset) / scale), low, high) + offset);
  return rounded;
}

/// The least error of any grid, by trying scales a thousandth of the range apart: of codes low .. high times a scale of either
/// sign, or with a zero point within them.
double least_error(const Group& weights, int bits, bool zero_points) {
  const double codes = std::pow(2, bits);
  const auto [low_at, high_at] = std::minmax_element(weights.begin(), weights.end());
  const double low = std::min(*low_at, 0.0), high = std::max(*high_at, 0.0);
  double best = 1e300;
  for (int step = 100; step <= 1100; ++step) {
    const double share = step / 1000.0;
    if (!zero_points) {
      for (const double sign : {-1.0, 1.0}) {
        const double scale = sign * share * std::max(-low, high) / (codes / 2 - 1);
        best = std::min(best, squared(weights, on_grid(weights, scale, 0, -codes / 2, codes / 2 - 1)));
      }
      continue;
    }
    const double scale = share * (high - low) / (codes - 1);
    for (double zero = 0; zero < codes; ++zero) best = std::min(best, squared(weights, on_grid(weights, scale, 0, -zero, codes - 1 - zero)));
  }
  return best;
}

TEST_CASE("least squared error comes near the best of all grids, at every number of bits") {
  const auto w = some_weights();
  for (const int bits : {2, 3, 4}) {
    for (const bool zero_points : {false, true}) {
      if (bits == 2 && !zero_points) continue;  // no such format
      if (bits == 4 && quick()) continue;  // the reference tries all grids
      const std::string name = message("i", bits, zero_points ? "z" : "", ".g32");
      CAPTURE(name);
      double best = 0, found = 0;
      for_groups(w, nearest(w, find_format(name)), group, [&](const Group& weights, const Group& rounded) {
        best += least_error(weights, bits, zero_points);
        found += squared(weights, rounded);
      });
      CHECK(found < 1.05 * best);
      CHECK(found > 0.99 * best);  // scales in between the tried ones, and rounded to f16
    }
  }
}

TEST_CASE("least squared error loses less than the range, at 3 and 4 bits") {
  const auto w = some_weights();
  for (const char* name : {"i3z.g32", "i3.g32", "i4z.g32", "i4.g32", "i4m.g32", "nf4.g64"}) {
    CAPTURE(std::string(name));
    const FormatInfo& format = find_format(name);
    CHECK(squared(w, nearest(w, format)) < 0.98 * squared(w, nearest(w, format, {.search = GridSearch::range})));
  }
}

/// By definition: of sorted numbers the one at rank (n - 1) percent / 100, or between two as far as the rank is.
double percentile(Group values, double percent) {
  std::ranges::sort(values);
  const double rank = static_cast<double>(values.size() - 1) * percent / 100, whole = std::floor(rank);
  const auto at = static_cast<std::size_t>(whole);
  return at + 1 < values.size() ? values[at] + (rank - whole) * (values[at + 1] - values[at]) : values[at];
}

TEST_CASE("percentiles span what plain grids span of clamped weights") {
  const auto w = some_weights();
  struct Way {
    const char* format;
    std::int64_t size;
    std::function<Group(const Group& weights, double low, double high)> round;
  };
  const auto zero_points = [](double largest) {
    return [=](const Group& weights, double low, double high) {
      const double lower = std::min(low, 0.0), scale = (std::max(high, 0.0) - lower) / largest, zero = std::nearbyint(-lower / scale);
      return on_grid(weights, scale, 0, -zero, largest - zero);
    };
  };
  const auto minimum = [](const Group& weights, double low, double high) { return on_grid(weights, (high - low) / 15, low, 0, 15); };
  const auto row = [](const Group& weights, double low, double high) { return on_grid(weights, std::max(-low, high) / 127, 0, -127, 127); };
  const Way ways[] = {{"i3z.g32", group, zero_points(7)}, {"i4z.g32", group, zero_points(15)}, {"i4m.g32", group, minimum}, {"i8.row", columns, row}};
  for (const Way& way : ways) {
    for (const double percent : {99.9, 97.0, 80.0}) {
      CAPTURE(std::string(way.format));
      CAPTURE(percent);
      int different = 0, weights_seen = 0;
      for_groups(w, nearest(w, find_format(way.format), {.search = GridSearch::range, .percentile = percent}), way.size,
                 [&](const Group& weights, const Group& found) {
                   const Group expected = way.round(weights, percentile(weights, 100 - percent), percentile(weights, percent));
                   const double size = std::fabs(*std::ranges::max_element(expected, {}, [](double x) { return std::fabs(x); }));
                   for (std::size_t i = 0; i < weights.size(); ++i) {
                     ++weights_seen;
                     // Scales and minimums are cut to f16: 2^-11 of what they make. A code near a border may fall to the
                     // other side.
                     different += std::fabs(found[i] - expected[i]) > size * 0x1p-10;
                   }
                 });
      CHECK(different <= weights_seen / 100);
    }
    const auto all = nearest(w, find_format(way.format), {.search = GridSearch::range, .percentile = 100}).dequantize();
    CHECK(std::ranges::equal(all.span(), nearest(w, find_format(way.format), {.search = GridSearch::range}).dequantize().span()));
  }
}

TEST_CASE("every format survives clipped groups, whatever is in them") {
  for (const float value : {0.0f, 1.0f, -3e4f, 1e-30f}) {
    Tensor<float, 2> w({2, 300});
    std::ranges::fill(w.span(), value);
    for (const FormatInfo& format : formats()) {
      if (format.is_float) continue;
      CAPTURE(std::string(format.name));
      const auto plain = nearest(w, format, {.search = GridSearch::range}).dequantize();
      const auto clipped = nearest(w, format, {.search = GridSearch::range, .percentile = 99}).dequantize();
      CHECK(std::ranges::equal(clipped.span(), plain.span()));
    }
  }
  const auto w = some_weights();
  for (const double percent : {50.0, 100.5, -1.0, std::nan("")}) {
    CHECK(error_of([&] { (void)nearest(w, find_format("i4"), {.percentile = percent}); }) ==
          message("nearest: expected a percentile above 50 and at most 100, found ", percent));
  }
}

TEST_CASE("over a model, every way to clip gives each matrix what nearest gives it") {
  TinyModel tiny;
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  for (const char* name : {"minmax", "mse", "percentile:95"}) {
    for (const char* format : {"i3z.g32", "i4.g32", "q4k"}) {
      CAPTURE(std::string(name));
      CAPTURE(std::string(format));
      const Clip clip = find_clip(name);
      const Recipe plan = recipe::with(Method::rtn, format, {}, {.clip = clip}).keep("lm_head", "f16");
      const WeightMatrix found = compress(model, plan).first.weights().layers[0].mlp.gate;
      const auto weights = model.weights().layers[0].mlp.gate.dequantize();
      const auto expected = nearest(weights, find_format(format), nearest_options(clip)).dequantize();
      CHECK(std::ranges::equal(found.dequantize().span(), expected.span()));
    }
  }
  // With calibration the ranges are the same, and the search weighs errors.
  const auto calibrated = [&](const char* name) {
    const Recipe plan = recipe::with(Method::rtn, "i3z.g32", {}, {.clip = find_clip(name)});
    return compress(model, plan, {}, some_calibration()).first.weights().layers[0].mlp.gate.dequantize();
  };
  const auto alone = [&](const char* name) {
    const Recipe plan = recipe::with(Method::rtn, "i3z.g32", {}, {.clip = find_clip(name)});
    return compress(model, plan).first.weights().layers[0].mlp.gate.dequantize();
  };
  CHECK(std::ranges::equal(calibrated("minmax").span(), alone("minmax").span()));
  CHECK_FALSE(std::ranges::equal(calibrated("mse").span(), alone("mse").span()));
}

}  // namespace
}  // namespace bantam::test
