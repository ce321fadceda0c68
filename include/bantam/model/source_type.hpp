// Element types of other projects' files: how a row of them reads as floats, and which format holds the same numbers.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bantam/quant/format_info.hpp"

namespace bantam::inline v0 {

/// One type that a checkpoint's tensors may have. To read another: add it to the list in src/model/source_type.cpp.
struct SourceType {
  std::string_view name;  ///< as the container spells it: "F32", "Q4_0"
  int block;              ///< weights a block
  int block_bytes;
  /// The format that holds every value of this type exactly: at the same size, but for types that cannot be written.
  const FormatInfo* format;
  /// One row as floats, as the type's public definition says.
  void (*read_row)(const std::byte* row, std::span<float> out);
  /// Fills rows `place`, `place` + 1, ... of a panel of `format` with rows that lie `row_bytes` apart.
  void (*fill_rows)(std::byte* panel, int place, int rows, std::int64_t columns, const std::byte* bytes, std::int64_t row_bytes);
  /// Blocks of a row as codes of `format`, a multiple of `block` columns of them; null where read_row loses nothing.
  void (*read_codes)(const std::byte* blocks, std::int64_t columns, std::int8_t* codes, GroupSide* sides) noexcept;
  /// The other way round, for codes that blocks of the type hold; null with read_codes, and for types that are read only.
  void (*write_codes)(const std::int8_t* codes, const GroupSide* sides, std::int64_t columns, std::byte* blocks) noexcept;
  /// The format all of whose rows are rows of the type: `format`, one of vector_formats(), or none.
  const FormatInfo* written;

  /// Whether it holds all that `format` does.
  [[nodiscard]] bool can_be_written() const noexcept { return written == format; }
  [[nodiscard]] std::int64_t row_bytes(std::int64_t columns) const noexcept { return columns / block * block_bytes; }
};

/// Null for a type that nothing here reads.
[[nodiscard]] const SourceType* find_source_type(std::string_view name) noexcept;
/// The type that holds all that a format holds; null where none does.
[[nodiscard]] const SourceType* source_type_of(const FormatInfo& format) noexcept;
/// "F32, F16, ...": for messages.
[[nodiscard]] std::string source_type_names();

}  // namespace bantam::inline v0
