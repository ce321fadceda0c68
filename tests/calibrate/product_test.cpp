// Products of floats, and of inputs and weights of any format, against sums in double precision.
#include "bantam/calibrate/product.hpp"

#include <cmath>

#include "bantam/quant/formats.hpp"
#include "bantam/tensor/random.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

using View = TensorView<const float, 2>;

double dot(View a, std::int64_t i, View b, std::int64_t j) {
  double sum = 0;
  for (std::int64_t k = 0; k < a.extent(1); ++k) sum += static_cast<double>(a(i, k)) * static_cast<double>(b(j, k));
  return sum;
}

TEST_CASE("products of rows are those of double precision, of columns and of the upper half alone, too") {
  const std::int64_t m = 130, n = 45, k = 300;
  const auto a = random::normal<float>({m, k}, 1), b = random::normal<float>({n, k}, 2), turned = random::normal<float>({k, n}, 3);
  for (const View right : {b.view(), turned.view().transposed()}) {
    Tensor<float, 2> found({m, n});
    for_products(a, right, false, [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
      std::ranges::copy(values, &found(row, first));
    });
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) CHECK(static_cast<double>(found(i, j)) == doctest::Approx(dot(a, i, right, j)).scale(20).epsilon(1e-6));
    }
  }
  // Panels come from several threads: each marks its own values.
  Tensor<int, 2> visits({n, n});
  for_products(b, b, true, [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t column = first + static_cast<std::int64_t>(i);
      if (row > column) continue;
      CHECK(static_cast<double>(values[i]) == doctest::Approx(dot(b, row, b, column)).scale(20).epsilon(1e-6));
      ++visits(row, column);
    }
  });
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) CHECK(visits(i, j) == (i <= j ? 1 : 0));
  }
}

TEST_CASE("outputs are those of the weights that a format holds, in any order of columns") {
  const std::int64_t rows = 50, columns = 96, tokens = 7;
  const auto weights = random::normal<float>({rows, columns}, 4), x = random::normal<float>({tokens, columns}, 5);
  auto order = std::make_shared<ColumnPermutation>();
  for (std::int64_t c = 0; c < columns; ++c) order->push_back(static_cast<std::int32_t>(c * 7 % columns));
  for (const char* name : {"f32", "bf16", "i4.g32", "i8.row"}) {
    CAPTURE(name);
    WeightMatrix matrix = WeightMatrix::quantize(weights, find_format(name));
    for (const bool ordered : {false, true}) {
      if (ordered && matrix.format().is_float) continue;
      if (ordered) matrix = {matrix.format(), rows, columns, std::shared_ptr<const std::byte>(std::make_shared<WeightMatrix>(matrix), matrix.view().data), order};
      const Tensor<float, 2> decoded = matrix.dequantize(), found = outputs_of(matrix, x);
      for (std::int64_t t = 0; t < tokens; ++t) {
        for (std::int64_t r = 0; r < rows; ++r) CHECK(static_cast<double>(found(t, r)) == doctest::Approx(dot(x, t, decoded, r)).scale(10).epsilon(1e-6));
      }
    }
  }
}

}  // namespace
}  // namespace bantam::test
