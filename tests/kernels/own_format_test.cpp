// Formats outside the list, by the generic kernels.
#include "bantam/kernels/own_format.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/nn/ops.hpp"
#include "bantam/tensor/random.hpp"
#include "support.hpp"

using namespace bantam;

namespace {

/// The same numbers as i4.g32, under another name: what its products must be is known to the bit.
struct Twin : Int<4, 32> {
  static constexpr std::string_view name = "twin.g32";
  static constexpr FormatId id{0x7f01};
};
/// A kind that the list does not have: signed bytes in groups of 64.
struct Bytes64 {
  static constexpr std::string_view name = "bytes.g64";
  static constexpr FormatId id{0x7f02};
  static constexpr int group = 64;
  using Plane = plane::I8;
  using Scale = scale::F16;
  using Zero = zero::None;
  static void encode(std::span<const float> weights, std::int8_t* codes, GroupSide& side) noexcept {
    float largest = 0;
    for (const float w : weights) largest = std::max(largest, std::fabs(w));
    side.scale = largest / 127;
    const float inverse = inverse_scale(side.scale);
    for (std::size_t i = 0; i < weights.size(); ++i) codes[i] = static_cast<std::int8_t>(nearest_even(weights[i] * inverse));
  }
};

bool equal(const Tensor<float, 2>& a, const Tensor<float, 2>& b) { return std::ranges::equal(a.span(), b.span()); }

}  // namespace

TEST_CASE("a format outside the list has the products of its numbers, whatever the table in use") {
  const auto weights = random::normal<float>({70, 300}, 3);
  const auto x = random::normal<float>({5, 300}, 4);
  const auto twin = quantize<Twin>(weights);
  const auto listed = quantize<Int<4, 32>>(weights);
  CHECK(twin.format().held_index == -1);
  CHECK(equal(twin.dequantize(), listed.dequantize()));
  const std::string before = kernels_in_use().name;
  for (const KernelTable* table : kernel_tables()) {
    CAPTURE(table->name);
    use_kernels(table->name);
    for (const ops::Precision precision : {ops::Precision::exact, ops::Precision::fast}) {
      CHECK(equal(ops::matmul(x, twin, precision), ops::matmul(x, listed, precision)));
    }
    const auto bytes = quantize<Bytes64>(weights);
    const Tensor<float, 2> decoded = bytes.dequantize();
    CHECK(relative_error(weights, decoded) < 0.01);
    const Tensor<float, 2> y = ops::matmul(x, bytes);
    for (std::int64_t t = 0; t < 5; ++t) {
      for (std::int64_t r = 0; r < 70; ++r) {
        double sum = 0;
        for (std::int64_t c = 0; c < 300; ++c) sum += static_cast<double>(x(t, c)) * static_cast<double>(decoded(r, c));
        CHECK(y(t, r) == doctest::Approx(sum).epsilon(1e-4).scale(1));
      }
    }
    CHECK(relative_error(y, ops::matmul(x, bytes, ops::Precision::fast)) < 0.02);
  }
  use_kernels(before);
}
