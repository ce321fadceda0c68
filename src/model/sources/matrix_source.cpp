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

std::size_t MatrixSource::room_bytes() const noexcept { return static_cast<std::size_t>(format_->matrix_bytes(rows_, columns_)); }

std::int64_t MatrixSource::pieces() const noexcept { return div_up(div_up<std::int64_t>(rows_, panel_rows), panels_of_piece()); }

std::int64_t MatrixSource::panels_of_piece() const noexcept { return std::max<std::int64_t>(1, piece_bytes / format_->panel_bytes(columns_)); }

void MatrixSource::load_piece(std::int64_t piece, std::byte* room, Reading /*reading*/) const {
  const std::int64_t panel_bytes = format_->panel_bytes(columns_), first = piece * panels_of_piece();
  const std::int64_t last = std::min(first + panels_of_piece(), div_up<std::int64_t>(rows_, panel_rows));
  for (std::int64_t p = first; p < last; ++p) {
    std::array<std::int64_t, panel_rows> rows;
    std::iota(rows.begin(), rows.end(), p * panel_rows);
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(panel_rows, rows_ - p * panel_rows));
    fill_panel(std::span(rows).first(count), 0, room + p * panel_bytes);
  }
}

WeightMatrix MatrixSource::in_room(std::shared_ptr<const std::byte> room) const { return {*format_, rows_, columns_, std::move(room), order_}; }

WeightMatrix MatrixSource::load(Reading reading, StorageArena* arena) const {
  const auto room = arena != nullptr ? arena->allocate(room_bytes()) : allocate_storage(room_bytes());
  if (reading != Reading::direct) {
    for (const TensorPart& part : parts_) part.entry->file->will_need(part.bytes);
  }
  parallel_for(pieces(), 1, [&](Range range) {
    for (std::int64_t piece = range.begin; piece < range.end; ++piece) load_piece(piece, room.get(), reading);
  });
  drop();
  return in_room(room);
}

void MatrixSource::drop() const noexcept {
  for (const TensorPart& part : parts_) part.entry->file->drop(part.bytes);
}

}  // namespace bantam::inline v0
