// FP8 by a table of its 256 numbers.
#include "float8.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "bantam/quant/e4m3.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::array<float, 256> numbers = [] {
  std::array<float, 256> table{};
  for (int byte = 0; byte < 256; ++byte) {
    float x = detail::magnitude_of_e4m3(static_cast<std::uint8_t>(byte));
    if ((byte & 0x7f) == 0x7f) x = std::numeric_limits<float>::quiet_NaN();
    table[static_cast<std::size_t>(byte)] = byte >= 128 ? -x : x;
  }
  return table;
}();

/// Whether products with numbers of E4M3, 4 bits wide, are exact in bf16: 8 bits, with the exponents of f32.
bool is_power_of_two(float scale) noexcept {
  int exponent = 0;
  return std::frexp(scale, &exponent) == 0.5f && exponent > -100 && exponent < 100;
}

}  // namespace

float from_e4m3(std::uint8_t byte) noexcept { return numbers[byte]; }

Float8Matrix::Float8Matrix(std::string description, ModuleTensors tensors, std::int64_t rows, std::int64_t columns, FloatsView scales,
                           const Rectangles& rectangles, const std::string& scales_place)
    : MatrixSource(std::move(description), rows, columns), scales_(scales), rectangles_(rectangles) {
  numbers_ = tensors.take("weight", "F8_E4M3", {rows, columns}).bytes.data();
  parts_ = tensors.taken();
  std::swap(parts_.front(), parts_.back());  // the numbers first
  bool powers = true;
  for (std::int64_t i = 0; i < rectangles.count_down * rectangles.count_across; ++i) {
    if (!std::isfinite(scales[i])) fail(Errc::corrupt, scales_place, ": expected finite scales, found ", scales[i], " at ", i);
    powers = powers && is_power_of_two(scales[i]);
  }
  if (powers) format_ = &format_info<BF16Format>();
  description_ += message(", kept in ", format_->name);
}

void Float8Matrix::read_row(std::int64_t row, std::span<float> out, RowCodes& /*scratch*/) const {
  const std::byte* from = numbers_ + row * columns_;
  for (std::int64_t c = 0; c < columns_; ++c) {
    out[static_cast<std::size_t>(c)] = from_e4m3(detail::load_as<std::uint8_t>(from + c)) * scales_[rectangles_.index(row, c)];
  }
}

}  // namespace bantam::inline v0
