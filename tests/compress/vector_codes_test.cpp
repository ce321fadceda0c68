// Rounding matrices to GGUF's types whose codes are entries of a grid, and through their blocks.
#include <cmath>

#include "bantam/compress/descent.hpp"
#include "bantam/compress/gptq.hpp"
#include "bantam/compress/nearest.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/model/source_type.hpp"
#include "compress/inputs.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

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

TEST_CASE("what portable code encodes is what every instruction set rounds to, and a row's last vector needs no neighbor") {
  const std::string before = kernels_in_use().name;
  const auto w = random::normal<float>({3, 520}, 7, {.deviation = 0.05});
  for (const FormatInfo& format : vector_formats()) {
    CAPTURE(std::string(format.name));
    const Tensor<float, 2> encoded = WeightMatrix::quantize(w, format).dequantize();
    for (const KernelTable* table : kernel_tables()) {
      CAPTURE(std::string(table->name));
      use_kernels(table->name);
      CHECK(std::ranges::equal(nearest(w, format).dequantize().span(), encoded.span()));
    }
    use_kernels(before);
    // Three columns less: the same weights, as if zeros followed, and the bytes behind them are not read.
    Tensor<float, 2> zeros({3, 520}), less({3, 517});
    for (std::int64_t r = 0; r < 3; ++r) {
      for (std::int64_t c = 0; c < 517; ++c) zeros(r, c) = less(r, c) = w(r, c);
    }
    const Tensor<float, 2> filled = WeightMatrix::quantize(zeros, format).dequantize(), cut = WeightMatrix::quantize(less, format).dequantize();
    for (std::int64_t r = 0; r < 3; ++r) CHECK(std::equal(&cut(r, 0), &cut(r, 0) + 517, &filled(r, 0)));
  }
}

TEST_CASE("rows that end in the midst of a vector are refused") {
  const auto w = random::normal<float>({2, 250}, 7);
  for (const FormatInfo& format : vector_formats()) {
    has(error_of([&] { (void)nearest(w, format); }), "expected rows of whole vectors");
  }
}

}  // namespace bantam::test
