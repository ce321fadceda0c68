// Rows of a table, one for each token: of memory, or of the model's file.
#pragma once

#include <algorithm>
#include <span>

#include "bantam/core/memory.hpp"
#include "bantam/model/matrix_source.hpp"

namespace bantam::inline v0 {

/// Of an embedding. What a file has is read before the threads of a pass begin, which cannot throw.
class TableRows {
 public:
  /// Both outlive it. file: null where the table is in memory.
  TableRows(const WeightMatrix& table, const MatrixSource* file) noexcept : table_(table), file_(file) {}

  /// Reads rows id_of(0), ..., id_of(count - 1) for copy(), where they are not in memory. Throws what reading throws.
  template <class Ids>
  void read(std::int64_t count, Ids&& id_of) {
    if (file_ == nullptr) return;
    const auto columns = static_cast<std::size_t>(table_.columns());
    rows_.ensure(static_cast<std::size_t>(count) * columns);
    RowCodes scratch;
    // Rows of a prompt lie all over the table: a drive reads many of them in the time of one.
    for (std::int64_t i = 0; count > 1 && i < count; ++i) file_->announce(id_of(i));
    for (std::int64_t i = 0; i < count; ++i) file_->look_up(id_of(i), {rows_.data() + static_cast<std::size_t>(i) * columns, columns}, scratch);
    for (const TensorPart& part : file_->parts()) part.entry->file->check_unchanged();
  }
  /// Row `id`, number `place` of those that were read last. out: (columns).
  void copy(std::int64_t place, std::int64_t id, std::span<float> out, RowCodes& scratch) const noexcept {
    if (file_ == nullptr) {
      table_.read_row(id, out, scratch);
    } else {
      std::copy_n(rows_.data() + place * table_.columns(), out.size(), out.begin());
    }
  }

 private:
  const WeightMatrix& table_;
  const MatrixSource* file_;
  AlignedBuffer<float> rows_;  ///< (rows of a pass, columns)
};

}  // namespace bantam::inline v0
