// What sources of matrices do unless they know better: row by row, panel by panel.
#include "bantam/model/matrix_source.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "bantam/core/parallel.hpp"
#include "file_part.hpp"

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

void MatrixSource::load_piece(std::int64_t piece, std::byte* room, Reading reading) const {
  const std::int64_t first = piece * panels_of_piece(), count = std::min(panels_of_piece(), div_up<std::int64_t>(rows_, panel_rows) - first);
  load_panels(first, count, room + first * format_->panel_bytes(columns_), reading);
}

void MatrixSource::for_each_panel(std::int64_t first, std::int64_t count, std::byte* panel, FunctionRef<void(std::span<const std::int64_t>, std::byte*)> f) const {
  for (std::int64_t p = first; p < first + count; ++p, panel += format_->panel_bytes(columns_)) {
    std::array<std::int64_t, panel_rows> rows;
    std::iota(rows.begin(), rows.end(), p * panel_rows);
    f(std::span(rows).first(static_cast<std::size_t>(std::min<std::int64_t>(panel_rows, rows_ - p * panel_rows))), panel);
  }
}

void MatrixSource::load_panels(std::int64_t first, std::int64_t count, std::byte* panel, Reading /*reading*/) const {
  for_each_panel(first, count, panel, [&](std::span<const std::int64_t> rows, std::byte* to) { fill_panel(rows, 0, to); });
}

void MatrixSource::for_each_part(std::int64_t begin, std::int64_t end, Reading reading, FunctionRef<void(std::span<const std::byte>)> f) const {
  if (const std::span<const std::byte> stored = stored_as_loaded(); !stored.empty()) {
    for (; begin < end; begin += piece_bytes) {
      const auto part = stored.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(std::min(piece_bytes, end - begin)));
      f(FilePart(*parts_[0].entry->file, part, reading).bytes());
    }
    return;
  }
  const std::int64_t panel_bytes = format_->panel_bytes(columns_), last = div_up(end, panel_bytes);
  for (std::int64_t first = begin / panel_bytes; first < last; first += panels_of_piece()) {
    const std::int64_t count = std::min(panels_of_piece(), last - first), at = first * panel_bytes;
    const auto panels = allocate_storage(static_cast<std::size_t>(count * panel_bytes));  // of zeros, as all that load() fills
    load_panels(first, count, panels.get(), reading);
    const std::int64_t from = std::max(begin, at), to = std::min(end, at + count * panel_bytes);
    f({panels.get() + (from - at), static_cast<std::size_t>(to - from)});
  }
}

WeightMatrix MatrixSource::in_room(std::shared_ptr<const std::byte> room) const { return {*format_, rows_, columns_, std::move(room), order_}; }

WeightMatrix MatrixSource::load(Reading reading, StorageArena* arena) const {
  const auto room = arena != nullptr ? arena->allocate(room_bytes()) : allocate_storage(room_bytes());
  will_need(reading);
  parallel_for(pieces(), 1, [&](Range range) {
    for (std::int64_t piece = range.begin; piece < range.end; ++piece) load_piece(piece, room.get(), reading);
  });
  drop();
  return in_room(room);
}

void MatrixSource::will_need(Reading reading) const noexcept {
  if (reading == Reading::direct) return;
  for (const TensorPart& part : parts_) part.entry->file->will_need(part.bytes);
}

void MatrixSource::drop() const noexcept {
  for (const TensorPart& part : parts_) part.entry->file->drop(part.bytes);
}

}  // namespace bantam::inline v0
