// Weight matrices that other projects store as several tensors: codes here, scales there.
#pragma once

#include "bantam/model/matrix_source.hpp"

namespace bantam::inline v0 {

/// Codes under a scale, and perhaps a zero point, a group.
class GridMatrix : public MatrixSource {
 public:
  void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const final;
  void fill_panel(std::span<const std::int64_t> rows, int first, std::byte* panel) const final;

 protected:
  struct Grid {
    int bits;            ///< codes are 0 .. 2^bits - 1; signed ones are raised by 2^(bits - 1), and so is their zero
    std::int64_t group;  ///< columns under one scale; the last group may be shorter
    const float* levels = nullptr;  ///< 16 values: w = scale levels[q]; else w = scale (q - zero)
  };
  struct Side {
    float scale;
    int zero;
  };
  GridMatrix(std::string description, std::int64_t rows, std::int64_t columns, Grid grid)
      : MatrixSource(std::move(description), rows, columns), grid_(grid) {}

  [[nodiscard]] std::int64_t groups() const noexcept { return div_up(columns_, grid_.group); }
  /// The codes of whole rows; codes: (rows, columns).
  virtual void read_codes(std::int64_t first_row, int rows, std::uint8_t* codes) const noexcept = 0;
  [[nodiscard]] virtual Side side(std::int64_t row, std::int64_t group) const noexcept = 0;

  /// Takes the group of each column from I32 numbers, where they are not just in order: columns are sorted by it, and lie
  /// so in panels. Before settle(). Throws corrupt for groups that there are not.
  void take_groups(const TensorEntry& index, const std::string& place);
  /// Looks at every scale and zero and chooses the format; the last step of construction. `place` names the scales.
  /// Throws corrupt for scales that are not finite.
  void settle(const std::string& place);

  Grid grid_;

 private:
  [[nodiscard]] std::int64_t group_of(std::int64_t column) const noexcept {
    return group_of_.empty() ? column / grid_.group : group_of_[static_cast<std::size_t>(column)];
  }
  std::vector<std::int32_t> group_of_;  ///< of each column; empty: in order
};

}  // namespace bantam::inline v0
