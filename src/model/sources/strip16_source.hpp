// Matrices that are in strip16 already: in memory, or in native files.
#pragma once

#include "bantam/model/matrix_source.hpp"

namespace bantam::inline v0 {

/// A matrix in memory, whose bytes it shares. Of one without bytes all but reading works: shapes to be looked at.
[[nodiscard]] std::shared_ptr<const MatrixSource> source_of(WeightMatrix matrix);
/// A vector in memory; null: one of `count` numbers that cannot be read.
[[nodiscard]] std::shared_ptr<const MatrixSource> source_of(std::shared_ptr<const std::vector<float>> vector, std::int64_t count);
/// The bytes of a native file's tensor, which were checked, `order` behind them if there is one.
[[nodiscard]] std::shared_ptr<const MatrixSource> native_source(const TensorEntry& tensor, const FormatInfo& format, std::int64_t rows, std::int64_t columns,
                                                                std::shared_ptr<const ColumnPermutation> order);

}  // namespace bantam::inline v0
