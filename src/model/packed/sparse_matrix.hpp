// Matrices whose zeros are left out, as compressed-tensors stores them.
#pragma once

#include "bantam/model/matrix_source.hpp"
#include "module_tensors.hpp"

namespace bantam::inline v0 {

/// A list of I64 or I32 of one dimension. Throws corrupt.
[[nodiscard]] std::vector<std::int64_t> read_integers(const TensorEntry& entry, const std::string& place);

/// A module with the tensors `bitmask` U8 (rows, columns / 8), lowest bit first: which weights there are; `compressed`:
/// their values, row by row, (rows, columns / 2) for two of four, else of one dimension with `row_offsets` I64 (rows):
/// where each row begins; `shape`. Throws corrupt.
[[nodiscard]] std::shared_ptr<MatrixSource> open_sparse(ModuleTensors tensors, std::int64_t rows, std::int64_t columns);

}  // namespace bantam::inline v0
