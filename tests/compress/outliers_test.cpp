// LLM.int8()'s split: its parts, its product against one in double precision, and what it saves.
#include "bantam/compress/outliers.hpp"

#include <cmath>

#include "bantam/nn/ops.hpp"
#include "bantam/quant/formats.hpp"
#include "compress/inputs.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

std::vector<float> largest_of(const Tensor<float, 2>& x) {
  std::vector<float> largest(static_cast<std::size_t>(x.extent(1)), 0.0f);
  for (std::int64_t t = 0; t < x.extent(0); ++t) {
    for (std::int64_t c = 0; c < x.extent(1); ++c) largest[static_cast<std::size_t>(c)] = std::max(largest[static_cast<std::size_t>(c)], std::fabs(x(t, c)));
  }
  return largest;
}

/// ||y - x WT|| / ||x WT|| in double precision.
double product_error(const Tensor<float, 2>& y, const Tensor<float, 2>& x, const Tensor<float, 2>& w) {
  double off = 0, size = 0;
  for (std::int64_t t = 0; t < x.extent(0); ++t) {
    for (std::int64_t r = 0; r < w.extent(0); ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < w.extent(1); ++c) sum += static_cast<double>(x(t, c)) * static_cast<double>(w(r, c));
      off += std::pow(static_cast<double>(y(t, r)) - sum, 2);
      size += sum * sum;
    }
  }
  return std::sqrt(off / size);
}

struct Layer {
  explicit Layer(std::int64_t columns, float outlier) : w(random::normal<float>({48, columns}, 1, {.deviation = 0.05})), x(random::normal<float>({40, columns}, 2)) {
    for (std::int64_t t = 0; t < x.extent(0); ++t) {
      for (std::int64_t c = 5; c < columns; c += 100) x(t, c) = (t % 2 == 0 ? outlier : -outlier) * (1 + 0.01f * static_cast<float>(t));
    }
  }
  Tensor<float, 2> w, x;
};

TEST_CASE("the columns of large inputs are kept in f16, the others rounded") {
  const Layer layer(300, 20);
  const OutlierSplit split = split_outliers(layer.w, largest_of(layer.x), find_format("i8.row"));
  CHECK(split.columns == std::vector<std::int64_t>{5, 105, 205});
  CHECK(split.kept.format().name == "f16");
  const Tensor<float, 2> rest = split.rest.dequantize(), kept = split.kept.dequantize();
  for (std::int64_t r = 0; r < 48; ++r) {
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(rest(r, split.columns[i]) == 0);
      CHECK(kept(r, static_cast<std::int64_t>(i)) == static_cast<float>(f16(layer.w(r, split.columns[i]))));
    }
  }
  CHECK(relative_error(layer.w, rest) < 0.2);
}

TEST_CASE("without outliers a split is the plain format, and its product the plain one") {
  const Layer layer(128, 1);
  const OutlierSplit split = split_outliers(layer.w, largest_of(layer.x), find_format("i8.row"));
  CHECK(split.columns.empty());
  CHECK(split.kept.empty());
  const Tensor<float, 2> plain = ops::matmul(layer.x, WeightMatrix::quantize(layer.w, find_format("i8.row")), ops::Precision::fast);
  CHECK(std::ranges::equal(split.multiply(layer.x).span(), plain.span()));
}

TEST_CASE("a split gives back what large inputs take from the others of their block") {
  for (const char* name : {"i8.row", "q8"}) {
    CAPTURE(std::string(name));
    const FormatInfo& format = find_format(name);
    double before = 0;
    for (const float outlier : {20.0f, 60.0f, 200.0f}) {
      const Layer layer(512, outlier);
      const double split = product_error(split_outliers(layer.w, largest_of(layer.x), format).multiply(layer.x), layer.x, layer.w);
      const double plain = product_error(ops::matmul(layer.x, WeightMatrix::quantize(layer.w, format), ops::Precision::fast), layer.x, layer.w);
      CAPTURE(outlier);
      CAPTURE(plain);
      CAPTURE(split);
      CHECK(split < plain);
      CHECK(split < 0.012);
      CHECK((before == 0 || split < before));  // a part without error grows
      before = split;
    }
  }
}

TEST_CASE("split_outliers says what does not fit") {
  const Layer layer(64, 20);
  const std::vector<float> largest(64, 1.0f);
  CHECK(error_of([&] { (void)split_outliers(layer.w, std::vector<float>(63), find_format("i8.row")); }) == "outliers: expected the largest of 64 inputs, found 63");
  CHECK(error_of([&] { (void)split_outliers(layer.w, largest, find_format("f16")); }) == "outliers: expected a format of integers or levels, found f16");
  CHECK(error_of([&] { (void)split_outliers(layer.w, largest, find_format("i8.row")).multiply(random::normal<float>({2, 63}, 1)); }) ==
        "outliers: expected inputs of 64 columns, found 63");
  auto bad = random::normal<float>({2, 64}, 1);
  bad(1, 7) = 1e6f;
  CHECK(error_of([&] { (void)split_outliers(bad, std::vector<float>(64, 9.0f), find_format("i8.row")); }) ==
        "outliers: expected weights that f16 can hold, found 1e+06 at (1, 7)");
}

}  // namespace
}  // namespace bantam::test
