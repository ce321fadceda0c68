// Where a matrix of a checkpoint comes from: one interface, whatever stores it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bantam/core/team.hpp"
#include "bantam/io/tensor_source.hpp"
#include "bantam/model/piece_source.hpp"
#include "bantam/quant/weights.hpp"

namespace bantam::inline v0 {

struct Selection;

/// What a matrix has of a file: a tensor's bytes, or some of them.
struct TensorPart {
  explicit TensorPart(const TensorEntry& tensor) : entry(&tensor), bytes(tensor.bytes) {}
  TensorPart(const TensorEntry& tensor, std::span<const std::byte> some) : entry(&tensor), bytes(some) {}

  const TensorEntry* entry;
  std::span<const std::byte> bytes;
};

/// A matrix, or a vector as a matrix of one row. It was checked when it was made: reading fails only where the system does.
class MatrixSource : public PieceSource {
 public:
  /// How it is stored, for people: "Q4_0", "gptq 4 bits, groups of 128".
  [[nodiscard]] const std::string& description() const noexcept { return description_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t columns() const noexcept { return columns_; }
  /// The format that holds every value exactly.
  [[nodiscard]] const FormatInfo& format() const noexcept { return *format_; }
  /// The order of columns in load() and fill_panel(); null: the model's.
  [[nodiscard]] const std::shared_ptr<const ColumnPermutation>& order() const noexcept { return order_; }
  /// Takes another matrix's equal order: matrices that share it gather what they read once.
  void share_order(std::shared_ptr<const ColumnPermutation> equal) noexcept { order_ = std::move(equal); }
  /// What the file leaves open about it, and how it was decided, for people; mostly empty.
  [[nodiscard]] const std::string& doubt() const noexcept { return doubt_; }
  /// What it has of files; of several tensors, the one with the codes first. Empty: it lies in memory.
  [[nodiscard]] const std::vector<TensorPart>& parts() const noexcept { return parts_; }
  /// Its share of the bytes in parts().
  [[nodiscard]] std::int64_t stored_bytes() const noexcept override;

  /// One row as floats, columns in the model's order. out: (columns).
  virtual void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const = 0;
  /// The same of a row here and there: reads it, and its panel at most, from the file without mapping a page.
  virtual void look_up(std::int64_t row, std::span<float> out, RowCodes& scratch) const { read_row(row, out, scratch); }
  /// Has the system begin to read what look_up() will want of a row, so that it waits for many at once.
  virtual void announce(std::int64_t /*row*/) const noexcept {}
  /// The format that fill_panel() writes: format(), or f32 where a panel of that cannot be put together row by row.
  [[nodiscard]] virtual const FormatInfo& panel_format() const noexcept { return *format_; }
  /// Writes these of its rows to rows `first`, `first` + 1, ... of a panel.
  virtual void fill_panel(std::span<const std::int64_t> rows, int first, std::byte* panel) const;
  /// All of it, bit-exact, in memory from `arena`, or in its own where that is null. Pages of files that had to be converted are given back to the system.
  [[nodiscard]] virtual WeightMatrix load(Reading reading, StorageArena* arena) const;

  /// Calls f for the bytes `begin` to `end` of load()'s matrix part by part, in memory of a megabyte or a panel. Any threads may, at once. Not of a matrix in memory.
  void for_each_part(std::int64_t begin, std::int64_t end, Reading reading, FunctionRef<void(std::span<const std::byte>)> f) const;

  // The same into memory that is there, in pieces, which any threads may read in any order. Not of a matrix in memory.
  /// Whether load() reads its pieces and does nothing else, so that others may be read beside them.
  [[nodiscard]] virtual bool has_pieces(Reading /*reading*/) const noexcept { return !parts_.empty(); }
  /// Has the system read ahead what pieces will want, where its page cache is used.
  void will_need(Reading reading) const noexcept;
  /// Bytes that it takes, from a multiple of MappedFile::block_bytes on.
  [[nodiscard]] virtual std::size_t room_bytes() const noexcept;
  [[nodiscard]] std::int64_t pieces() const noexcept override;
  void load_piece(std::int64_t piece, std::byte* room, Reading reading) const override;
  /// The bytes of the file that room has as they are; empty: they are converted.
  [[nodiscard]] virtual std::span<const std::byte> stored_as_loaded() const noexcept { return {}; }
  /// The matrix, once all of its pieces are there.
  [[nodiscard]] virtual WeightMatrix in_room(std::shared_ptr<const std::byte> room) const;
  /// Frees what reading has left in memory; gives pages of files back to the system.
  virtual void drop() const noexcept;
  /// These rows as a source that needs nothing of this one, such as a plain tensor of fewer bytes; null: there is none. For select_rows().
  [[nodiscard]] virtual std::shared_ptr<const MatrixSource> select(const Selection& /*rows*/) const { return nullptr; }
  /// Rows `first` to `first` + `count`, their bytes read now in one go, for who wants them in an order of his own; null: there is no such source.
  [[nodiscard]] virtual std::shared_ptr<const MatrixSource> held(std::int64_t /*first*/, std::int64_t /*count*/, Reading /*reading*/) const { return nullptr; }

 protected:
  MatrixSource(std::string description, std::int64_t rows, std::int64_t columns)
      : description_(std::move(description)), rows_(rows), columns_(columns) {}

  [[nodiscard]] std::int64_t panels_of_piece() const noexcept;
  /// Calls f(its rows, where it lies) for each of `count` panels, the first of which lies at `panel`.
  void for_each_panel(std::int64_t first, std::int64_t count, std::byte* panel, FunctionRef<void(std::span<const std::int64_t>, std::byte*)> f) const;
  /// Writes panels `first`, `first` + 1, ... of those that load() gives, `count` of them, over zeros.
  virtual void load_panels(std::int64_t first, std::int64_t count, std::byte* panel, Reading reading) const;

  std::string description_;
  std::string doubt_;
  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<TensorPart> parts_;
  const FormatInfo* format_ = &format_info<F32Format>();
  std::shared_ptr<const ColumnPermutation> order_;
};

/// Calls f(row, place, count) for each run of rows that lie one behind the other: row + i is rows[place + i].
template <class F>
void for_each_run(std::span<const std::int64_t> rows, F&& f) {
  for (std::size_t at = 0, count = 1; at < rows.size(); at += count) {
    for (count = 1; at + count < rows.size() && rows[at + count] == rows[at] + static_cast<std::int64_t>(count);) ++count;
    f(rows[at], static_cast<int>(at), static_cast<int>(count));
  }
}

}  // namespace bantam::inline v0
