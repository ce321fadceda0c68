// The MXFP4 of gpt-oss's folders.
#pragma once

#include "bantam/model/matrix_source.hpp"

namespace bantam::inline v0 {

/// A matrix (rows, columns), or several below each other, of E2M1 numbers, two a byte, the first in the low half, and E8M0 exponents, one
/// each 32 columns. Both are U8 of a shape that was checked.
[[nodiscard]] std::shared_ptr<const MatrixSource> mxfp4_source(const TensorPart& blocks, const TensorPart& scales, std::int64_t rows, std::int64_t columns);

}  // namespace bantam::inline v0
