// Each transform a source that reads another.
#include "transforms.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "bantam/core/parallel.hpp"

namespace bantam::inline v0 {

namespace {

const FormatInfo& float_format(const MatrixSource& source) noexcept { return source.format().is_float ? source.format() : format_info<F32Format>(); }

/// What others are made of.
class Derived : public MatrixSource {
 public:
  [[nodiscard]] std::int64_t stored_bytes() const noexcept override {
    const auto size = [](const MatrixSource& m) { return static_cast<double>(m.rows()) * static_cast<double>(m.columns()); };
    return std::llround(static_cast<double>(from_->stored_bytes()) * size(*this) / size(*from_));
  }
  void drop() const noexcept override { from_->drop(); }

 protected:
  Derived(SharedSource from, std::int64_t rows, std::int64_t columns, const FormatInfo& format)
      : MatrixSource(from->description(), rows, columns), from_(std::move(from)) {
    doubt_ = from_->doubt();
    parts_ = from_->parts();
    format_ = &format;
  }

  SharedSource from_;
};

/// Indices: Selection or IndexList.
template <class Indices>
class Rows final : public Derived {
 public:
  Rows(SharedSource from, Indices rows)
      : Derived(from, rows.count(), from->columns(), from->panel_format()), selected_(std::move(rows)) {
    if (!format_->is_float) order_ = from_->order();
  }
  void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const override { from_->read_row(selected_[row], out, scratch); }
  void fill_panel(std::span<const std::int64_t> rows, int first, std::byte* panel) const override { fill_from(*from_, 0, rows, first, panel); }

 protected:
  /// Rows that are near each other there, as those of a head are, come with one read.
  void load_panels(std::int64_t first, std::int64_t count, std::byte* panel, Reading reading) const override {
    const std::int64_t begin = first * panel_rows, end = std::min(begin + count * panel_rows, rows_);
    std::int64_t low = selected_[begin], high = low;
    for (std::int64_t row = begin; row < end; ++row) {
      low = std::min(low, selected_[row]);
      high = std::max(high, selected_[row]);
    }
    const SharedSource near = high - low < 2 * (end - begin) ? from_->held(low, high - low + 1, reading) : nullptr;
    if (near == nullptr) return Derived::load_panels(first, count, panel, reading);
    for_each_panel(first, count, panel, [&](std::span<const std::int64_t> rows, std::byte* to) { fill_from(*near, low, rows, 0, to); });
  }

 private:
  /// Of rows of the other from `begin` on.
  void fill_from(const MatrixSource& source, std::int64_t begin, std::span<const std::int64_t> rows, int first, std::byte* panel) const {
    std::array<std::int64_t, panel_rows> theirs;
    std::ranges::transform(rows, theirs.begin(), [&](std::int64_t row) { return selected_[row] - begin; });
    source.fill_panel(std::span(theirs).first(rows.size()), first, panel);
  }

  const Indices selected_;
};

template <class Indices>
class Columns final : public Derived {
 public:
  Columns(SharedSource from, Indices columns) : Derived(from, from->rows(), columns.count(), float_format(*from)), selected_(std::move(columns)) {}
  void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const override {
    std::vector<float> all(static_cast<std::size_t>(from_->columns()));
    from_->read_row(row, all, scratch);
    auto to = out.begin();
    selected_.for_each([&](std::int64_t c) { *to++ = all[static_cast<std::size_t>(c)]; });
  }

 private:
  const Indices selected_;
};

class Transposed final : public Derived {
 public:
  explicit Transposed(SharedSource from) : Derived(from, from->columns(), from->rows(), float_format(*from)) {}
  void read_row(std::int64_t row, std::span<float> out, RowCodes& /*scratch*/) const override {
    const Values values = read();
    for (std::int64_t c = 0; c < columns_; ++c) out[static_cast<std::size_t>(c)] = values.get()[c * rows_ + row];
  }
  void fill_panel(std::span<const std::int64_t> rows, int first, std::byte* panel) const override {
    const Values values = read();
    // Column by column: rows of a panel are neighbors there.
    // A line apart, for rows of a power of two would share a few lines of the cache.
    const auto columns = static_cast<std::size_t>(columns_), stride = columns + 16;
    const auto floats = std::make_unique_for_overwrite<float[]>(rows.size() * stride);
    for_each_run(rows, [&](std::int64_t row, int place, int count) {
      for (std::int64_t c = 0; c < columns_; ++c) {
        const float* from = values.get() + c * rows_ + row;
        float* to = floats.get() + static_cast<std::size_t>(place) * stride + c;
        for (int i = 0; i < count; ++i) to[static_cast<std::size_t>(i) * stride] = from[i];
      }
    });
    RowCodes scratch;
    for (std::size_t row = 0; row < rows.size(); ++row) format_->encode_row(panel, first++, {floats.get() + row * stride, columns}, scratch);
    // Matrices are loaded row after row: what was read is not asked for again.
    const std::lock_guard lock(mutex_);
    filled_ += std::ssize(rows);
    if (filled_ < rows_) return;
    kept_ = nullptr;
    filled_ = 0;
  }
  [[nodiscard]] WeightMatrix load(Reading reading, StorageArena* arena) const override {
    will_need(reading);
    const Values values = make_room();
    parallel_for(columns_, 16, [&](Range range) { read(range, values); });
    keep(values);
    return MatrixSource::load(reading, arena);
  }
  /// All rows of the other come first, read by all cores.
  [[nodiscard]] bool has_pieces(Reading /*reading*/) const noexcept override { return false; }
  void drop() const noexcept override {
    keep(nullptr);
    from_->drop();
  }
  [[nodiscard]] SharedSource select(const Selection& rows) const override { return transpose(select_columns(from_, rows)); }

 private:
  using Values = std::shared_ptr<float>;  ///< in huge pages, where they are many
  [[nodiscard]] Values make_room() const {
    const auto bytes = allocate_storage(static_cast<std::size_t>(rows_ * columns_) * sizeof(float));
    return {bytes, reinterpret_cast<float*>(bytes.get())};
  }
  void read(Range rows, const Values& values) const {
    RowCodes scratch;
    for (std::int64_t r = rows.begin; r < rows.end; ++r) from_->read_row(r, {values.get() + r * rows_, static_cast<std::size_t>(rows_)}, scratch);
  }
  /// Every row of the transpose needs all rows of the other: they are read once.
  [[nodiscard]] Values read() const {
    const std::lock_guard lock(mutex_);
    if (kept_ == nullptr) {
      const Values values = make_room();
      read({0, columns_}, values);
      kept_ = values;
    }
    return kept_;
  }
  void keep(Values values) const noexcept {
    const std::lock_guard lock(mutex_);
    kept_ = std::move(values);
    filled_ = 0;
  }

  mutable std::mutex mutex_;
  mutable Values kept_;
  mutable std::int64_t filled_ = 0;  ///< rows, since it was kept
};

class Stack final : public MatrixSource {
 public:
  explicit Stack(std::vector<SharedSource> matrices) : MatrixSource(matrices[0]->description(), 0, matrices[0]->columns()), matrices_(std::move(matrices)) {
    const MatrixSource& like = *matrices_[0];
    alike_ = std::ranges::all_of(matrices_, [&](const SharedSource& m) { return &m->panel_format() == &like.panel_format() && m->order() == like.order(); });
    if (alike_) format_ = &like.panel_format();
    if (!format_->is_float) order_ = like.order();
    for (const SharedSource& matrix : matrices_) {
      BANTAM_ASSERT(matrix->columns() == columns_);
      begins_.push_back(rows_);
      rows_ += matrix->rows();
      if (doubt_.empty()) doubt_ = matrix->doubt();
      const auto is_new = [&](const TensorPart& part) { return std::ranges::find(parts_, part.bytes.data(), [](const TensorPart& p) { return p.bytes.data(); }) == parts_.end(); };
      std::ranges::copy_if(matrix->parts(), std::back_inserter(parts_), is_new);
    }
  }
  [[nodiscard]] std::int64_t stored_bytes() const noexcept override {
    std::int64_t sum = 0;
    for (const SharedSource& matrix : matrices_) sum += matrix->stored_bytes();
    return sum;
  }
  void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const override {
    const std::size_t m = number_of(row);
    matrices_[m]->read_row(row - begins_[m], out, scratch);
  }
  void fill_panel(std::span<const std::int64_t> rows, int first, std::byte* panel) const override {
    if (!alike_) return MatrixSource::fill_panel(rows, first, panel);
    std::array<std::int64_t, panel_rows> theirs;
    for (std::size_t at = 0, count = 0; at < rows.size(); at += count) {
      const std::size_t m = number_of(rows[at]);
      for (count = 0; at + count < rows.size() && number_of(rows[at + count]) == m; ++count) theirs[count] = rows[at + count] - begins_[m];
      matrices_[m]->fill_panel(std::span(theirs).first(count), first + static_cast<int>(at), panel);
    }
  }
  void drop() const noexcept override {
    for (const SharedSource& matrix : matrices_) matrix->drop();
  }

 private:
  [[nodiscard]] std::size_t number_of(std::int64_t row) const noexcept {
    return static_cast<std::size_t>(std::ranges::upper_bound(begins_, row) - begins_.begin() - 1);
  }

  std::vector<SharedSource> matrices_;
  std::vector<std::int64_t> begins_;  ///< the first row of each
  bool alike_ = false;                ///< in format and order of columns
};

class Offset final : public Derived {
 public:
  Offset(SharedSource from, float value) : Derived(from, from->rows(), from->columns(), format_info<F32Format>()), value_(value) {}
  void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const override {
    from_->read_row(row, out, scratch);
    for (float& x : out) x += value_;
  }

 private:
  float value_;
};

class Scaled final : public Derived {
 public:
  Scaled(SharedSource from, std::vector<float> factors) : Derived(from, from->rows(), from->columns(), format_info<F32Format>()), factors_(std::move(factors)) {}
  void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const override {
    from_->read_row(row, out, scratch);
    for (float& x : out) x *= factors_[factors_.size() == 1 ? 0 : static_cast<std::size_t>(row)];
  }

 private:
  const std::vector<float> factors_;
};

/// NVFP4 times a factor for each of some equal parts of the rows: the numbers stay, as the factor goes into what their scales are multiplied by.
class ScaledNvfp4 final : public Derived {
 public:
  ScaledNvfp4(SharedSource from, std::vector<float> factors) : Derived(from, from->rows(), from->columns(), from->format()), factors_(std::move(factors)) {}
  void fill_panel(std::span<const std::int64_t> rows, int first, std::byte* panel) const override {
    from_->fill_panel(rows, first, panel);
    for (const std::int64_t row : rows) {
      std::byte* unit = panel + first++ * static_cast<int>(sizeof(float));  // the panel's header
      detail::store_as(unit, detail::load_as<float>(unit) * factors_[static_cast<std::size_t>(row * std::ssize(factors_) / rows_)]);
    }
  }
  void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const override {
    std::vector<std::byte> panel(static_cast<std::size_t>(format_->panel_bytes(columns_)));
    fill_panel(std::span(&row, 1), 0, panel.data());
    format_->decode_row(panel.data(), 0, out, scratch);
  }

 private:
  const std::vector<float> factors_;
};

class MinusExp final : public Derived {
 public:
  explicit MinusExp(SharedSource from) : Derived(from, from->rows(), from->columns(), format_info<F32Format>()) {}
  void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const override {
    from_->read_row(row, out, scratch);
    for (float& x : out) x = -std::exp(x);
  }
};

class AsRow final : public Derived {
 public:
  explicit AsRow(SharedSource from) : Derived(from, 1, from->rows() * from->columns(), float_format(*from)) {}
  void read_row(std::int64_t /*row*/, std::span<float> out, RowCodes& scratch) const override {
    const auto columns = static_cast<std::size_t>(from_->columns());
    for (std::int64_t r = 0; r < from_->rows(); ++r) from_->read_row(r, out.subspan(static_cast<std::size_t>(r) * columns, columns), scratch);
  }
};

class InFloats final : public Derived {
 public:
  explicit InFloats(SharedSource from) : Derived(from, from->rows(), from->columns(), format_info<F32Format>()) {
    description_.resize(std::min(description_.size(), description_.find(", kept in ")));
  }
  void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const override { from_->read_row(row, out, scratch); }
};

}  // namespace

SharedSource select_rows(SharedSource from, const Selection& rows) {
  if (rows.is_run() && rows.count() == from->rows()) return from;
  SharedSource easier = from->select(rows);
  return easier != nullptr ? easier : std::make_shared<Rows<Selection>>(std::move(from), rows);
}
SharedSource slice(SharedSource from, std::int64_t index, std::int64_t count) {
  const std::int64_t rows = from->rows() / count;
  return select_rows(std::move(from), Selection::run(index * rows, rows));
}
SharedSource stack(std::vector<SharedSource> matrices) { return std::make_shared<Stack>(std::move(matrices)); }
SharedSource select_columns(SharedSource from, const Selection& columns) {
  if (columns.is_run() && columns.count() == from->columns()) return in_floats(std::move(from));
  return std::make_shared<Columns<Selection>>(std::move(from), columns);
}
SharedSource select_rows(SharedSource from, IndexList rows) { return std::make_shared<Rows<IndexList>>(std::move(from), std::move(rows)); }
SharedSource select_columns(SharedSource from, IndexList columns) { return std::make_shared<Columns<IndexList>>(std::move(from), std::move(columns)); }
SharedSource transpose(SharedSource from) { return std::make_shared<Transposed>(std::move(from)); }
SharedSource offset(SharedSource from, float value) { return std::make_shared<Offset>(std::move(from), value); }
SharedSource scaled(SharedSource from, std::vector<float> factors) { return std::make_shared<Scaled>(std::move(from), std::move(factors)); }
SharedSource scaled_nvfp4(SharedSource from, std::vector<float> factors) { return std::make_shared<ScaledNvfp4>(std::move(from), std::move(factors)); }
SharedSource as_row(SharedSource from) { return std::make_shared<AsRow>(std::move(from)); }
SharedSource minus_exp(SharedSource from) { return std::make_shared<MinusExp>(std::move(from)); }
SharedSource in_floats(SharedSource from) { return from->format().is_float ? from : std::make_shared<InFloats>(std::move(from)); }

}  // namespace bantam::inline v0
