// Reading rows of one element type.
#include "plain_source.hpp"

#include <algorithm>

#include "bantam/core/error.hpp"
#include "bantam/model/source_type.hpp"
#include "file_part.hpp"
#include "transforms.hpp"

namespace bantam::inline v0 {

namespace {

class PlainSource final : public MatrixSource {
 public:
  /// held: its bytes; null: they are read when they are asked for.
  PlainSource(const SourceType& type, const TensorPart& part, std::int64_t rows, std::int64_t columns, std::shared_ptr<const FilePart> held = nullptr)
      : MatrixSource(type.can_be_written() ? std::string(type.name) : message(type.name, ", kept in ", type.format->name), rows, columns),
        type_(type), row_bytes_(type.row_bytes(columns)), held_(std::move(held)) {
    parts_ = {part};
    format_ = type.format;
  }

  void read_row(std::int64_t row, std::span<float> out, RowCodes& /*scratch*/) const override {
    std::vector<std::byte> bytes(static_cast<std::size_t>(row_bytes_));
    read(row, 1, bytes.data());
    type_.read_row(bytes.data(), out);
  }

  void fill_panel(std::span<const std::int64_t> wanted, int place, std::byte* panel) const override {
    const auto bytes = std::make_unique_for_overwrite<std::byte[]>(wanted.size() * static_cast<std::size_t>(row_bytes_));
    for_each_run(wanted, [&](std::int64_t row, int at, int count) { read(row, count, bytes.get() + at * row_bytes_); });
    type_.fill_rows(panel, place, static_cast<int>(wanted.size()), columns_, bytes.get(), row_bytes_);
  }

  void announce(std::int64_t row) const noexcept override { file().will_need(bytes_of(row, 1)); }

  [[nodiscard]] std::shared_ptr<const MatrixSource> select(const Selection& rows) const override {
    if (!rows.is_run()) return nullptr;
    return std::make_shared<PlainSource>(type_, TensorPart(*parts_[0].entry, bytes_of(rows.first, rows.count())), rows.count(), columns_);
  }
  [[nodiscard]] std::shared_ptr<const MatrixSource> held(std::int64_t first, std::int64_t count, Reading reading) const override {
    const std::span<const std::byte> bytes = bytes_of(first, count);
    return std::make_shared<PlainSource>(type_, TensorPart(*parts_[0].entry, bytes), count, columns_, std::make_shared<FilePart>(file(), bytes, reading));
  }

 protected:
  void load_panels(std::int64_t first, std::int64_t count, std::byte* panel, Reading reading) const override {
    const std::int64_t begin = first * panel_rows, end = std::min(begin + count * panel_rows, rows_);
    const FilePart part(file(), bytes_of(begin, end - begin), reading);
    const std::byte* from = part.bytes().data();
    for (std::int64_t row = begin; row < end; row += panel_rows, panel += format_->panel_bytes(columns_), from += panel_rows * row_bytes_) {
      type_.fill_rows(panel, 0, static_cast<int>(std::min<std::int64_t>(panel_rows, end - row)), columns_, from, row_bytes_);
    }
  }

 private:
  [[nodiscard]] const MappedFile& file() const noexcept { return *parts_[0].entry->file; }
  [[nodiscard]] std::span<const std::byte> bytes_of(std::int64_t row, std::int64_t rows) const noexcept {
    return parts_[0].bytes.subspan(static_cast<std::size_t>(row * row_bytes_), static_cast<std::size_t>(rows * row_bytes_));
  }
  /// Read, not mapped: a file that another program cuts short is an error then, where a lost page would end the process.
  void read(std::int64_t row, std::int64_t rows, std::byte* to) const {
    if (held_ == nullptr) return file().read(bytes_of(row, rows), to);
    std::ranges::copy(held_->bytes().subspan(static_cast<std::size_t>(row * row_bytes_), static_cast<std::size_t>(rows * row_bytes_)), to);
  }

  const SourceType& type_;
  std::int64_t row_bytes_;
  std::shared_ptr<const FilePart> held_;
};

}  // namespace

std::shared_ptr<const MatrixSource> open_plain(const TensorEntry& tensor, const std::string& file, const std::vector<std::int64_t>& shape) {
  const std::string place = message(file, ": ", printable(tensor.name));
  const SourceType* type = find_source_type(tensor.type);
  if (type == nullptr) fail(Errc::unsupported, place, ": type ", printable(tensor.type), ": not yet; what works: ", source_type_names());
  if (tensor.shape != shape) fail(Errc::corrupt, place, ": expected shape ", to_string(shape), ", found ", to_string(tensor.shape));
  const std::int64_t columns = shape.empty() ? 1 : shape.back();
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  const std::int64_t bytes = rows * type->row_bytes(columns);
  if (columns % type->block != 0 || static_cast<std::int64_t>(tensor.bytes.size()) != bytes) {
    fail(Errc::corrupt, place, ": expected ", bytes, " bytes of ", tensor.type, ", found ", tensor.bytes.size());
  }
  return std::make_shared<PlainSource>(*type, TensorPart(tensor), rows, columns);
}

}  // namespace bantam::inline v0
