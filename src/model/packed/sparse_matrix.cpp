// Reading matrices without their zeros.
#include "sparse_matrix.hpp"

#include <bit>

namespace bantam::inline v0 {

namespace {

using bantam::detail::load_as;

class SparseMatrix final : public MatrixSource {
 public:
  SparseMatrix(ModuleTensors tensors, std::int64_t rows, std::int64_t columns) : MatrixSource("", rows, columns), line_(div_up<std::int64_t>(columns, 8)) {
    const TensorEntry& values = tensors.take("compressed");
    mask_ = tensors.take("bitmask", "U8", {rows, line_}).bytes.data();
    values_ = FloatsView(values);
    if (!values_.readable()) {
      fail(Errc::unsupported, tensors.place("compressed"), ": sparse ", printable(values.type), ": not yet; what works: F32, F16, BF16");
    }
    if (tensors.peek("shape") != nullptr) {
      const std::vector<std::int64_t> shape = read_integers(tensors.take("shape"), tensors.place("shape"));
      if (shape != std::vector{rows, columns}) {
        fail(Errc::corrupt, tensors.place("shape"), ": expected (", rows, ", ", columns, "), found ", to_string(shape));
      }
    }
    find_rows(tensors, values);
    parts_ = tensors.taken();
    format_ = values.type == "BF16" ? &format_info<BF16Format>() : values.type == "F16" ? &format_info<F16Format>() : &format_info<F32Format>();
    description_ = message("compressed-tensors sparse ", format_->name, starts_.empty() ? ", 2 of 4" : "");
  }

  void read_row(std::int64_t row, std::span<float> out, RowCodes& /*scratch*/) const override {
    std::int64_t next = starts_.empty() ? row * (columns_ / 2) : starts_[static_cast<std::size_t>(row)];
    const std::byte* mask = mask_ + row * line_;
    for (std::int64_t c = 0; c < columns_; ++c) {
      const bool there = load_as<std::uint8_t>(mask + c / 8) >> c % 8 & 1;
      out[static_cast<std::size_t>(c)] = there ? values_[next++] : 0.0f;
    }
  }

 private:
  /// Where each row's values begin, and that the mask asks for no more than there are.
  void find_rows(ModuleTensors& tensors, const TensorEntry& values) {
    const bool half = values.shape.size() == 2;
    if (half && values.shape != std::vector{rows_, columns_ / 2}) {
      fail(Errc::corrupt, tensors.place("compressed"), ": expected shape (", rows_, ", ", columns_ / 2, "), found ", to_string(values.shape));
    }
    if (!half) {
      if (values.shape.size() != 1) fail(Errc::corrupt, tensors.place("compressed"), ": expected one or two dimensions, found ", values.shape.size());
      const TensorEntry& offsets = tensors.take("row_offsets");
      starts_ = read_integers(offsets, tensors.place("row_offsets"));
      if (static_cast<std::int64_t>(starts_.size()) != rows_) {
        fail(Errc::corrupt, tensors.place("row_offsets"), ": expected ", rows_, " numbers, found ", starts_.size());
      }
    }
    for (std::int64_t row = 0; row < rows_; ++row) {
      std::int64_t count = 0;
      for (std::int64_t c = 0; c < columns_; ++c) count += load_as<std::uint8_t>(mask_ + row * line_ + c / 8) >> c % 8 & 1;
      if (half && count != columns_ / 2) {
        fail(Errc::corrupt, tensors.place("bitmask"), ": expected ", columns_ / 2, " weights in row ", row, ", found ", count);
      }
      if (half) continue;
      const std::int64_t start = starts_[static_cast<std::size_t>(row)];
      if (start < 0 || start > values.shape[0] - count) {
        fail(Errc::corrupt, tensors.place("row_offsets"), ": expected the ", count, " values of row ", row, " within ", values.shape[0], ", found them at ", start);
      }
    }
  }

  std::int64_t line_;  ///< bytes of the mask a row
  const std::byte* mask_;
  FloatsView values_;
  std::vector<std::int64_t> starts_;  ///< empty: half of each row is there
};

}  // namespace

std::vector<std::int64_t> read_integers(const TensorEntry& entry, const std::string& place) {
  const bool wide = entry.type == "I64";
  if ((!wide && entry.type != "I32") || entry.shape.empty() || static_cast<std::int64_t>(entry.bytes.size()) / (wide ? 8 : 4) != entry.shape[0]) {
    // (rows, 1) is a list too; anything wider is not.
    fail(Errc::corrupt, place, ": expected a list of I64 or I32, found ", printable(entry.type), " ", to_string(entry.shape));
  }
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(entry.shape[0]));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = wide ? load_as<std::int64_t>(entry.bytes.data() + i * 8) : load_as<std::int32_t>(entry.bytes.data() + i * 4);
  }
  return numbers;
}

std::shared_ptr<MatrixSource> open_sparse(ModuleTensors tensors, std::int64_t rows, std::int64_t columns) {
  return std::make_shared<SparseMatrix>(std::move(tensors), rows, columns);
}

}  // namespace bantam::inline v0
