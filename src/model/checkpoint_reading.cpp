// Reading a checkpoint's tensors: rows as floats, whole matrices in strip16.
#include <algorithm>

#include "bantam/core/parallel.hpp"
#include "bantam/model/roles.hpp"
#include "model/packed/packed_matrix.hpp"

namespace bantam::inline v0 {

namespace {

/// Row of the file that holds row `row` in Hugging Face's order: element i of half j of a head lies at 2 i + j.
std::int64_t source_row(const CheckpointTensor& tensor, std::int64_t row, std::int64_t rows) {
  if (tensor.unpermute_heads == 0) return row;
  const std::int64_t d = rows / tensor.unpermute_heads;
  const std::int64_t in_head = row % d;
  return row - in_head + in_head % (d / 2) * 2 + in_head / (d / 2);
}

/// A native file's matrix as it lies.
WeightMatrix mapped_matrix(const CheckpointTensor& tensor) {
  return {*tensor.native, tensor.rows, tensor.columns, std::shared_ptr<const std::byte>(tensor.entry->file, tensor.bytes.data()), tensor.order};
}

/// Calls f(file, bytes) for what of files a tensor is made of.
template <class F>
void for_each_part(const CheckpointTensor& tensor, F&& f) {
  if (tensor.packed == nullptr) return f(*tensor.entry->file, tensor.bytes);
  for (const TensorEntry* part : tensor.packed->parts()) f(*part->file, part->bytes);
}

}  // namespace

void Checkpoint::read_row(const CheckpointTensor& tensor, std::int64_t row, std::span<float> out, RowCodes& scratch) const {
  if (weights_ != nullptr) {
    if (const WeightMatrix* matrix = matrix_of(*weights_, tensor)) return matrix->read_row(row, out, scratch);
    std::ranges::copy(*vector_of(*weights_, tensor), out.begin());
    return;
  }
  if (tensor.native != nullptr) return mapped_matrix(tensor).read_row(row, out, scratch);
  if (tensor.packed != nullptr) return tensor.packed->read_row(row, out);
  const std::int64_t from = tensor.is_matrix ? source_row(tensor, row, tensor.rows) : 0;
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.source->row_bytes(tensor.columns)));
  tensor.entry->file->read(tensor.bytes.subspan(static_cast<std::size_t>(from) * bytes.size(), bytes.size()), bytes.data());
  tensor.source->read_row(bytes.data(), out);
}

/// Brings `rows` rows of a foreign file's matrix, from row `first_row` on, into a panel.
void Checkpoint::fill_panel(const CheckpointTensor& tensor, std::int64_t first_row, int rows, std::byte* panel) const {
  if (tensor.packed != nullptr) return tensor.packed->fill_panel(first_row, rows, panel);
  const FormatInfo& format = tensor.format();
  const SourceType& source = *tensor.source;
  // Read, not mapped: a file that another program cuts short is an error then, where a lost page would end the process.
  const std::int64_t row_bytes = source.row_bytes(tensor.columns);
  const auto bytes = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(rows * row_bytes));
  for (int row = 0, count = 0; row < rows; row += count) {
    // As many rows at once as lie one behind the other.
    const std::int64_t from = source_row(tensor, first_row + row, tensor.rows);
    for (count = 1; row + count < rows && source_row(tensor, first_row + row + count, tensor.rows) == from + count;) ++count;
    const auto part = tensor.bytes.subspan(static_cast<std::size_t>(from * row_bytes), static_cast<std::size_t>(count * row_bytes));
    tensor.entry->file->read(part, bytes.get() + row * row_bytes);
  }
  if (source.read_codes == nullptr) {
    RowCodes scratch;
    std::vector<float> floats(static_cast<std::size_t>(tensor.columns));
    for (int row = 0; row < rows; ++row) {
      source.read_row(bytes.get() + row * row_bytes, floats);
      format.encode_row(panel, row, floats, scratch);
    }
    return;
  }
  // Block by block, not row by row: a row's codes are four bytes of each line, and lines stay in the cache meanwhile.
  std::int8_t codes[block_columns];
  GroupSide sides[block_columns / 16];
  for (std::int64_t first = 0; first < tensor.columns; first += block_columns) {
    const std::int64_t columns = std::min<std::int64_t>(block_columns, tensor.columns - first);
    for (int row = 0; row < rows; ++row) {
      source.read_codes(bytes.get() + row * row_bytes + source.row_bytes(first), columns, codes, sides);
      format.store_block(panel, row, tensor.columns, first, codes, sides);
    }
  }
}

WeightMatrix Checkpoint::load_native(const CheckpointTensor& tensor, Reading reading) {
  const TensorEntry& entry = *tensor.entry;
  const MappedFile& file = *entry.file;
  const auto size = static_cast<std::int64_t>(entry.bytes.size());
  if (reading == Reading::mapped) return mapped_matrix(tensor);
  if (reading == Reading::buffered) file.will_need(entry.bytes);
  constexpr std::int64_t piece = 1 << 20;  // long reads, and enough of them for every core
  // In memory the bytes lie as far behind a block's beginning as in the file, so that whole blocks go to their place.
  const auto lead = static_cast<std::int64_t>(static_cast<std::size_t>(entry.bytes.data() - file.bytes().data()) % MappedFile::block_bytes);
  const auto blocks = allocate_storage(round_up(static_cast<std::size_t>(lead + size), MappedFile::block_bytes));
  parallel_for(div_up(lead + size, piece), 1, [&](Range pieces) {
    for (std::int64_t i = pieces.begin; i < pieces.end; ++i) {
      const std::int64_t begin = std::max<std::int64_t>(0, i * piece - lead);
      const auto part = entry.bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(std::min((i + 1) * piece - lead, size) - begin));
      if (reading == Reading::direct) {
        file.read_blocks(part, blocks.get() + i * piece);
      } else {
        file.read(part, blocks.get() + lead + begin);
      }
    }
  });
  return {*tensor.native, tensor.rows, tensor.columns, std::shared_ptr<const std::byte>(blocks, blocks.get() + lead), tensor.order};
}

WeightMatrix Checkpoint::load_matrix(const CheckpointTensor& tensor, Reading reading) const {
  if (weights_ != nullptr) return *matrix_of(*weights_, tensor);
  if (tensor.native != nullptr) return load_native(tensor, reading);
  const FormatInfo& format = tensor.format();
  const auto data = allocate_storage(static_cast<std::size_t>(format.matrix_bytes(tensor.rows, tensor.columns)));
  const std::int64_t panel_bytes = format.panel_bytes(tensor.columns);
  for_each_part(tensor, [](const MappedFile& file, std::span<const std::byte> bytes) { file.will_need(bytes); });
  // Pieces of about a megabyte: long reads, and enough of them for every core.
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 20) / panel_bytes);
  parallel_for(div_up<std::int64_t>(tensor.rows, panel_rows), grain, [&](Range panels) {
    for (std::int64_t p = panels.begin; p < panels.end; ++p) {
      const auto rows = static_cast<int>(std::min<std::int64_t>(panel_rows, tensor.rows - p * panel_rows));
      fill_panel(tensor, p * panel_rows, rows, data.get() + p * panel_bytes);
    }
  });
  drop(tensor);
  return {format, tensor.rows, tensor.columns, data, tensor.order};
}

void Checkpoint::drop(const CheckpointTensor& tensor) const noexcept {
  if (weights_ != nullptr) return;
  for_each_part(tensor, [](const MappedFile& file, std::span<const std::byte> bytes) { file.drop(bytes); });
}

std::vector<float> Checkpoint::load_vector(const CheckpointTensor& tensor) const {
  std::vector<float> values(static_cast<std::size_t>(tensor.columns));
  if (weights_ != nullptr) {
    RowCodes scratch;
    read_row(tensor, 0, values, scratch);
  } else {
    std::vector<std::byte> bytes(tensor.bytes.size());
    tensor.entry->file->read(tensor.bytes, bytes.data());
    std::vector<float> all(static_cast<std::size_t>(tensor.columns * tensor.step));
    tensor.source->read_row(bytes.data(), all);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = all[static_cast<std::size_t>(tensor.first) + i * static_cast<std::size_t>(tensor.step)];
  }
  if (tensor.unpermute_heads == 0) return values;
  std::vector<float> ordered(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    ordered[i] = values[static_cast<std::size_t>(source_row(tensor, static_cast<std::int64_t>(i), tensor.columns))];
  }
  return ordered;
}

}  // namespace bantam::inline v0
