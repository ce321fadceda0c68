// A weight matrix that other projects store as several tensors: codes here, scales there.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bantam/io/tensor_source.hpp"
#include "bantam/quant/weights.hpp"

namespace bantam::inline v0 {

/// Checked in full when it is made: reading it cannot fail.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  PackedMatrix(const PackedMatrix&) = delete;
  PackedMatrix& operator=(const PackedMatrix&) = delete;

  /// How the file stores it, for people: "gptq 4 bits, groups of 128".
  [[nodiscard]] const std::string& description() const noexcept { return description_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t columns() const noexcept { return columns_; }
  /// The tensors that it consists of.
  [[nodiscard]] const std::vector<const TensorEntry*>& parts() const noexcept { return parts_; }
  /// What of the file is its own.
  [[nodiscard]] virtual std::int64_t stored_bytes() const noexcept {
    std::int64_t sum = 0;
    for (const TensorEntry* part : parts_) sum += static_cast<std::int64_t>(part->bytes.size());
    return sum;
  }
  /// The format that holds every value exactly.
  [[nodiscard]] const FormatInfo& format() const noexcept { return *format_; }
  /// The order of columns that panels have; null: the model's.
  [[nodiscard]] const std::shared_ptr<const ColumnPermutation>& order() const noexcept { return order_; }

  /// What the file leaves open about it, and how it was decided, for people; mostly empty.
  [[nodiscard]] const std::string& doubt() const noexcept { return doubt_; }

  /// One row as floats, as the family defines them. out: (columns).
  virtual void read_row(std::int64_t row, std::span<float> out) const = 0;
  /// Rows `first_row` .. of a panel of format().
  virtual void fill_panel(std::int64_t first_row, int rows, std::byte* panel) const;

 protected:
  PackedMatrix(std::string description, std::int64_t rows, std::int64_t columns)
      : description_(std::move(description)), rows_(rows), columns_(columns) {}

  std::string description_;
  std::string doubt_;
  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<const TensorEntry*> parts_;
  const FormatInfo* format_ = &format_info<F32Format>();
  std::shared_ptr<const ColumnPermutation> order_;
};

/// Codes under a scale, and perhaps a zero point, a group.
class GridMatrix : public PackedMatrix {
 public:
  void read_row(std::int64_t row, std::span<float> out) const final;
  void fill_panel(std::int64_t first_row, int rows, std::byte* panel) const final;

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
      : PackedMatrix(std::move(description), rows, columns), grid_(grid) {}

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
