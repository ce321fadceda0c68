// Matrices of E2M1 numbers under scales of 8 bits: MXFP4 (gpt-oss, compressed-tensors) and NVFP4 (ModelOpt, compressed-tensors).
#pragma once

#include "module_tensors.hpp"

namespace bantam::inline v0 {

/// MXFP4: a matrix (rows, columns), or several below each other, of E2M1 numbers, two a byte, the first in the low half, and exponents, one each
/// 32 columns, none of them 255. Both are bytes of a shape that was checked.
[[nodiscard]] std::shared_ptr<const MatrixSource> mxfp4_source(const TensorPart& codes, const TensorPart& scales, std::int64_t rows, std::int64_t columns);

/// The matrix of a module whose `codes` are such numbers, U8 (rows, columns / 2), under weight_scale:
///   U8      (rows, columns / 32)  MXFP4
///   F8_E4M3 (rows, columns / 16)  NVFP4, times `unit`, a number of the whole matrix
/// Throws corrupt naming the tensor.
[[nodiscard]] std::shared_ptr<MatrixSource> open_e2m1(ModuleTensors tensors, std::string_view codes, std::int64_t rows, std::int64_t columns, float unit,
                                                      std::string_view family);

}  // namespace bantam::inline v0
