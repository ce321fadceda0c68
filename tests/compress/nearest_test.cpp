// Rounding to nearest on fitted grids, and HQQ.
#include "bantam/compress/nearest.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/tensor/random.hpp"
#include "compress/inputs.hpp"
#include "limits.hpp"
#include "reference/hqq.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

double weighted_error(const Tensor<float, 2>& w, const WeightMatrix& rounded, std::span<const float> importance) {
  const Tensor<float, 2> decoded = rounded.dequantize();
  double sum = 0;
  for (std::int64_t r = 0; r < w.extent(0); ++r) {
    for (std::int64_t c = 0; c < w.extent(1); ++c) {
      const double d = static_cast<double>(w(r, c)) - static_cast<double>(decoded(r, c));
      sum += d * d * (importance.empty() ? 1.0 : static_cast<double>(importance[static_cast<std::size_t>(c)]));
    }
  }
  return sum;
}

/// Of a few columns that matter much more, as inputs of layers do.
std::vector<float> uneven_importance(std::int64_t columns) {
  const auto noise = random::normal<float>({1, columns}, 41);
  std::vector<float> importance;
  for (const float v : noise.span()) importance.push_back(std::exp(2 * v));
  return importance;
}

TEST_CASE("grids fitted by importance lose less where it matters, in every format that has a search") {
  const std::int64_t columns = 556;  // two blocks of 256 and a part of one, whose last group of 16 is padding
  const auto all = random::normal<float>({quick() ? 20 : 40, columns}, 42, {.deviation = 0.05});
  const std::vector<float> importance = uneven_importance(columns);
  for (const FormatInfo& format : formats()) {
    if (format.is_float || another_has_its_search(format)) continue;
    CAPTURE(std::string(format.name));
    const Tensor<float, 2> w = held_by(format, all);  // what goes whole costs the same with any grid
    const double range = weighted_error(w, nearest(w, format, {.search = GridSearch::range}), {});
    const double plain = weighted_error(w, nearest(w, format), {});
    CHECK(plain <= range * 1.0001);
    const double blind = weighted_error(w, nearest(w, format), importance);
    const double aware = weighted_error(w, nearest(w, format, {.importance = importance}), importance);
    const bool searched = nearest(w, format).dequantize().span()[0] != nearest(w, format, {.importance = importance}).dequantize().span()[0] || aware != blind;
    if (searched) CHECK(aware < 0.97 * blind);
    if (format.name.starts_with("q") || format.name.starts_with("iq")) CHECK(searched);
  }
}

TEST_CASE("without a search, nearest gives what the format's own rounding gives") {
  const auto w = random::normal<float>({33, 288}, 43, {.deviation = 0.05});
  for (const char* name : {"i4z.g32", "i3z.g128", "i2z.g64", "q4k", "q2k", "i8.row", "iq4nl", "mxfp4"}) {
    CAPTURE(std::string(name));
    const FormatInfo& format = find_format(name);
    const auto expected = WeightMatrix::quantize(w, format).dequantize(), found = nearest(w, format, {.search = GridSearch::range}).dequantize();
    CHECK(std::ranges::equal(found.span(), expected.span()));
  }
}

TEST_CASE("hqq finds the minimums of the solver in double precision") {
  const std::int64_t rows = 64, columns = 96;
  const auto w = random::normal<float>({rows, columns}, 44, {.deviation = 0.05});
  for (const char* name : {"i4m.g32", "i5m.g32"}) {
    CAPTURE(std::string(name));
    const FormatInfo& format = find_format(name);
    const auto found = hqq(w, format).dequantize();
    int different = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t first = 0; first < columns; first += 32) {
        std::vector<double> group;
        for (std::int64_t c = first; c < first + 32; ++c) group.push_back(static_cast<double>(w(r, c)));
        const reference::HqqGroup expected = reference::hqq_group(group, format.name[1] - '0');
        double zero_off = 0;
        for (std::int64_t c = first; c < first + 32; ++c) {
          const double q = std::clamp(std::nearbyint(static_cast<double>(w(r, c)) / expected.scale + expected.zero), 0.0, std::pow(2, format.name[1] - '0') - 1);
          zero_off = std::max(zero_off, std::fabs(static_cast<double>(found(r, c)) / expected.scale - (q - expected.zero)));
        }
        // Scale and minimum are stored as f16: 31 steps of a scale that is 2^-12 off, and a minimum as much, are 0.02 steps.
        // So a code near a border may fall to the other side: at 5 bits, 32 codes of a group have a chance of 1 % each.
        different += zero_off > 0.03;
      }
    }
    CHECK(different <= rows * columns / 32 / 8);
  }
}

TEST_CASE("hqq lowers the error that it is made for, in every format with minimums") {
  // Heavy tails: a few weights far out stretch each grid.
  auto w = random::normal<float>({64, 512}, 45, {.deviation = 0.05});
  for (std::size_t i = 0; i < w.span().size(); i += 29) w.data()[i] *= 4;
  int formats_tried = 0;
  for (const FormatInfo& format : formats()) {
    if (!format.has_minimums) continue;
    CAPTURE(std::string(format.name));
    ++formats_tried;
    const auto total = [&](const WeightMatrix& rounded) {
      const auto decoded = rounded.dequantize();
      double sum = 0;
      for (std::size_t i = 0; i < w.span().size(); ++i) sum += std::pow(std::fabs(static_cast<double>(w.span()[i] - decoded.span()[i])), 0.7);
      return sum;
    };
    // The grids over the range that HQQ starts from.
    CHECK(total(hqq(w, format)) < total(nearest(w, format, {.search = GridSearch::range})));
    const auto decoded = hqq(w, format).dequantize();
    CHECK(std::ranges::all_of(decoded.span(), [](float v) { return std::isfinite(v); }));
  }
  CHECK(formats_tried >= 2);
}

TEST_CASE("groups without range, of zeros and of huge weights survive every fit") {
  for (const float value : {0.0f, 1.0f, -1.0f, 1e-30f, -3e4f}) {
    const bool vanishes = std::fabs(value) < 1e-20f;  // below any f16
    Tensor<float, 2> w({2, 300});
    for (std::size_t i = 0; i < w.span().size(); ++i) w.data()[i] = value;
    for (const FormatInfo& format : formats()) {
      if (format.is_float || another_has_its_search(format)) continue;
      CAPTURE(std::string(format.name));
      const Tensor<float, 2> held = held_by(format, w);
      for (const GridSearch search : {GridSearch::range, GridSearch::error, GridSearch::half_quadratic}) {
        const auto decoded = nearest(w, format, {.search = search}).dequantize();
        // Of weights that are chosen together one may be further off.
        const float share = format.step_bits != 0 ? 1.5f : 0.51f;
        const auto near = [&](float v, float wanted) { return std::fabs(v - wanted) <= (vanishes ? 1e-20f : share * std::fabs(wanted)); };
        CHECK(std::ranges::equal(decoded.span(), vanishes ? w.span() : held.span(), near));
      }
    }
  }
}

TEST_CASE("nearest and hqq say what does not fit") {
  const auto w = random::normal<float>({8, 64}, 9);
  const std::vector<float> importance(32, 1.0f);
  CHECK(error_of([&] { (void)nearest(w, find_format("f16")); }) == "nearest: expected a format of integers or levels, found f16");
  CHECK(error_of([&] { (void)nearest(w, find_format("q4"), {.importance = importance}); }) == "nearest: expected the importance of 64 columns, found 32");
  CHECK(error_of([&] { (void)hqq(w, find_format("i4z.g32")); }) ==
        "hqq: expected a format with a minimum a group (i5m.g32, i4m.g32), found i4z.g32");
  auto bad = random::normal<float>({8, 64}, 9);
  bad(2, 3) = INFINITY;
  CHECK(error_of([&] { (void)hqq(bad, find_format("i4m.g32")); }) == "nearest: expected finite weights, found inf at (2, 3)");
}

}  // namespace
}  // namespace bantam::test
