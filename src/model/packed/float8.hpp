// Matrices of FP8 numbers (E4M3) under scales.
#pragma once

#include "bantam/model/matrix_source.hpp"
#include "module_tensors.hpp"
#include "rectangles.hpp"

namespace bantam::inline v0 {

/// The number of a byte of E4M3 (OCP 8-bit floating point 1.0: no infinities, 0x7f and 0xff are NaN).
[[nodiscard]] float from_e4m3(std::uint8_t byte) noexcept;

/// w = number times scale, rounded to f32 once.
class Float8Matrix final : public MatrixSource {
 public:
  /// Takes `weight`; the scales were taken already and are named in messages by `scales_place`.
  Float8Matrix(std::string description, ModuleTensors tensors, std::int64_t rows, std::int64_t columns, FloatsView scales,
               const Rectangles& rectangles, const std::string& scales_place);
  void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const override;

 private:
  const std::byte* numbers_;
  FloatsView scales_;
  Rectangles rectangles_;
};

}  // namespace bantam::inline v0
