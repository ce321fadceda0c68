// What sources of matrices do unless they know better: row by row, panel by panel.
#include "bantam/model/matrix_source.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "bantam/core/parallel.hpp"

namespace bantam::inline v0 {

std::int64_t MatrixSource::stored_bytes() const noexcept {
  std::int64_t sum = 0;
  for (const TensorPart& part : parts_) sum += static_cast<std::int64_t>(part.bytes.size());
  return sum;
}

void MatrixSource::fill_panel(std::span<const std::int64_t> rows, int first, std::byte* panel) const {
  RowCodes scratch;
  std::vector<float> floats(static_cast<std::size_t>(columns_));
  for (const std::int64_t row : rows) {
    read_row(row, floats, scratch);
    panel_format().encode_row(panel, first++, floats, scratch);
  }
}

WeightMatrix MatrixSource::load(Reading /*reading*/) const {
  const auto data = allocate_storage(static_cast<std::size_t>(format_->matrix_bytes(rows_, columns_)));
  const std::int64_t panel_bytes = format_->panel_bytes(columns_);
  for (const TensorPart& part : parts_) part.entry->file->will_need(part.bytes);
  // Pieces of about a megabyte: long reads, and enough of them for every core.
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 20) / panel_bytes);
  parallel_for(div_up<std::int64_t>(rows_, panel_rows), grain, [&](Range panels) {
    for (std::int64_t p = panels.begin; p < panels.end; ++p) {
      std::array<std::int64_t, panel_rows> rows;
      std::iota(rows.begin(), rows.end(), p * panel_rows);
      const auto count = static_cast<std::size_t>(std::min<std::int64_t>(panel_rows, rows_ - p * panel_rows));
      fill_panel(std::span(rows).first(count), 0, data.get() + p * panel_bytes);
    }
  });
  drop();
  return {*format_, rows_, columns_, data, order_};
}

void MatrixSource::drop() const noexcept {
  for (const TensorPart& part : parts_) part.entry->file->drop(part.bytes);
}

}  // namespace bantam::inline v0
