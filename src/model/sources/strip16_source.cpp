// Panels as they lie.
#include "strip16_source.hpp"

#include <algorithm>

#include "transforms.hpp"

namespace bantam::inline v0 {

namespace {

class Strip16Source : public MatrixSource {
 public:
  explicit Strip16Source(WeightMatrix matrix) : MatrixSource(std::string(matrix.format().name), matrix.rows(), matrix.columns()), matrix_(std::move(matrix)) {
    format_ = &matrix_.format();
    order_ = matrix_.order();
  }

  [[nodiscard]] std::int64_t stored_bytes() const noexcept override { return format_->matrix_bytes(rows_, columns_); }
  void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const override { matrix_.read_row(row, out, scratch); }
  [[nodiscard]] const FormatInfo& panel_format() const noexcept override {
    // Codes do not say which weights of a panel were left out, nor what nested scales were measured by.
    const bool codes_say_all = format_->kept == Kept::all && format_->stored_scale != nullptr;
    return format_->is_float || codes_say_all ? *format_ : format_info<F32Format>();
  }
  void fill_panel(std::span<const std::int64_t> rows, int first, std::byte* panel) const override {
    if (panel_format().is_float) return MatrixSource::fill_panel(rows, first, panel);
    RowCodes codes;
    for (const std::int64_t row : rows) {
      format_->load_codes(panel_of(row), static_cast<int>(row % panel_rows), columns_, codes);
      format_->store_codes(panel, first++, columns_, codes);
    }
  }
  [[nodiscard]] WeightMatrix load(Reading /*reading*/, StorageArena* /*arena*/) const override { return matrix_; }
  [[nodiscard]] std::shared_ptr<const MatrixSource> select(const Selection& rows) const override {
    return has_panels(rows) ? source_of(panels(rows)) : nullptr;
  }

 protected:
  /// Whole panels are a matrix of their own.
  [[nodiscard]] bool has_panels(const Selection& rows) const noexcept {
    return rows.is_run() && rows.first % panel_rows == 0 && (rows.count() % panel_rows == 0 || rows.first + rows.count() == rows_);
  }
  [[nodiscard]] WeightMatrix panels(const Selection& rows) const {
    return {*format_, rows.count(), columns_, {std::make_shared<const WeightMatrix>(matrix_), panel_of(rows.first)}, order_};
  }
  [[nodiscard]] const std::byte* panel_of(std::int64_t row) const noexcept { return matrix_.view().data + row / panel_rows * format_->panel_bytes(columns_); }

  WeightMatrix matrix_;
};

class NativeSource final : public Strip16Source {
 public:
  NativeSource(const TensorPart& part, WeightMatrix mapped) : Strip16Source(std::move(mapped)) { parts_ = {part}; }
  [[nodiscard]] std::int64_t stored_bytes() const noexcept override { return MatrixSource::stored_bytes(); }
  [[nodiscard]] std::shared_ptr<const MatrixSource> select(const Selection& rows) const override {
    if (!has_panels(rows)) return nullptr;
    WeightMatrix some = panels(rows);
    const std::span<const std::byte> bytes(some.view().data, static_cast<std::size_t>(some.bytes()));
    return std::make_shared<NativeSource>(TensorPart(*parts_[0].entry, bytes), std::move(some));
  }

  void look_up(std::int64_t row, std::span<float> out, RowCodes& scratch) const override {
    const std::int64_t first = row / panel_rows * panel_rows;
    const auto room = allocate_storage(static_cast<std::size_t>(format_->panel_bytes(columns_)));
    file().read({panel_of(row), static_cast<std::size_t>(format_->panel_bytes(columns_))}, room.get());
    WeightMatrix(*format_, std::min<std::int64_t>(panel_rows, rows_ - first), columns_, room, order_).read_row(row - first, out, scratch);
  }
  void announce(std::int64_t row) const noexcept override { file().will_need({panel_of(row), static_cast<std::size_t>(format_->panel_bytes(columns_))}); }
  [[nodiscard]] WeightMatrix load(Reading reading, StorageArena* arena) const override {
    return has_pieces(reading) ? MatrixSource::load(reading, arena) : matrix_;
  }
  [[nodiscard]] bool has_pieces(Reading reading) const noexcept override { return reading != Reading::mapped; }
  [[nodiscard]] std::size_t room_bytes() const noexcept override { return round_up(static_cast<std::size_t>(lead() + bytes()), MappedFile::block_bytes); }
  [[nodiscard]] std::int64_t pieces() const noexcept override { return div_up(lead() + bytes(), piece_bytes); }
  void load_piece(std::int64_t piece, std::byte* room, Reading reading) const override {
    const std::int64_t begin = std::max<std::int64_t>(0, piece * piece_bytes - lead()), end = std::min((piece + 1) * piece_bytes - lead(), bytes());
    const auto part = parts_[0].bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    if (reading == Reading::direct) {
      file().read_blocks(part, room + piece * piece_bytes);
    } else {
      file().read(part, room + lead() + begin);
    }
  }
  [[nodiscard]] std::span<const std::byte> stored_as_loaded() const noexcept override { return parts_[0].bytes; }
  [[nodiscard]] WeightMatrix in_room(std::shared_ptr<const std::byte> room) const override {
    return {*format_, rows_, columns_, std::shared_ptr<const std::byte>(room, room.get() + lead()), order_};
  }

 private:
  [[nodiscard]] const MappedFile& file() const noexcept { return *parts_[0].entry->file; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return std::ssize(parts_[0].bytes); }
  /// In memory the bytes lie as far behind a block's beginning as in the file, so that whole blocks go to their place.
  [[nodiscard]] std::int64_t lead() const noexcept {
    return static_cast<std::int64_t>(static_cast<std::size_t>(parts_[0].bytes.data() - file().bytes().data()) % MappedFile::block_bytes);
  }
};

class MemoryVector final : public MatrixSource {
 public:
  MemoryVector(std::shared_ptr<const std::vector<float>> values, std::int64_t count) : MatrixSource("F32", 1, count), values_(std::move(values)) {}
  [[nodiscard]] std::int64_t stored_bytes() const noexcept override { return columns_ * static_cast<std::int64_t>(sizeof(float)); }
  void read_row(std::int64_t /*row*/, std::span<float> out, RowCodes& /*scratch*/) const override { std::ranges::copy(*values_, out.begin()); }

 private:
  std::shared_ptr<const std::vector<float>> values_;
};

}  // namespace

std::shared_ptr<const MatrixSource> source_of(WeightMatrix matrix) { return std::make_shared<Strip16Source>(std::move(matrix)); }

std::shared_ptr<const MatrixSource> source_of(std::shared_ptr<const std::vector<float>> vector, std::int64_t count) {
  return std::make_shared<MemoryVector>(std::move(vector), count);
}

std::shared_ptr<const MatrixSource> native_source(const TensorEntry& tensor, const FormatInfo& format, std::int64_t rows, std::int64_t columns,
                                                  std::shared_ptr<const ColumnPermutation> order) {
  WeightMatrix mapped(format, rows, columns, std::shared_ptr<const std::byte>(tensor.file, tensor.bytes.data()), std::move(order));
  return std::make_shared<NativeSource>(TensorPart(tensor), std::move(mapped));
}

}  // namespace bantam::inline v0
