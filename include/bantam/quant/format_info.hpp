// Formats at run time: a table made from the list, looked up by name or id.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bantam/quant/grid.hpp"
#include "bantam/quant/vector_codes.hpp"

namespace bantam::inline v0 {

struct FormatKernels;

/// What portable code knows of a format. One constant instance per entry of Formats, in its order.
struct FormatInfo {
  std::string_view name;
  FormatId id;
  int held_index;  ///< place in the list of what holds its values in memory: itself, or of vector_formats() another; -1: outside of the list
  int group;  ///< weights per scale; 0: the whole row
  bool is_float;
  int activation_block;  ///< columns of activations under one scale in 8-bit products: 256 or 32
  /// Without padding; scales of a row spread over 4096 columns.
  double bits_per_weight;
  std::int64_t (*matrix_bytes)(std::int64_t rows, std::int64_t columns) noexcept;
  std::int64_t (*panel_bytes)(std::int64_t columns) noexcept;
  Kept kept;  ///< which weights it holds
  /// Where those are not all: comes before the rows of a panel are encoded or stored (keep_part); else null.
  void (*keep_part)(std::byte* panel, std::int64_t columns, std::span<float> rows) noexcept;
  void (*encode_row)(std::byte* panel, int row, std::span<const float> weights, RowCodes& scratch);
  void (*decode_row)(const std::byte* panel, int row, std::span<float> weights, RowCodes& scratch);
  /// Codes as they are, for formats of other projects that hold the same numbers; a row, or one block of some rows where no scale
  /// belongs to the row. Null for float formats.
  void (*load_codes)(const std::byte* panel, int row, std::int64_t columns, RowCodes& codes);
  void (*store_codes)(std::byte* panel, int row, std::int64_t columns, const RowCodes& codes);
  void (*store_rows)(std::byte* panel, int row, std::int64_t columns, std::int64_t first, std::span<const BlockCodes> rows) noexcept;
  /// Bits of a step of plane::Trellis, whose codes are chosen by blocks (quant/trellis_search.hpp); 0: codes mean something alone.
  int step_bits;
  /// For quantizers that choose codes one by one (quant/grid.hpp); null for float formats.
  int grid_columns;
  bool has_minimums;  ///< w = scale q + min, both of the group alone
  void (*fit_grid)(std::span<const float> weights, std::span<const float> importance, GridSearch search, std::span<GroupSide> sides);
  /// Null with step_bits.
  int (*round_to_grid)(float w, const GroupSide& side) noexcept;
  float (*decode_code)(int code, const GroupSide& side) noexcept;
  /// The nearest scale that a group can have; null where groups do not choose theirs freely and alone.
  float (*stored_scale)(float scale) noexcept;
  /// Where codes are chosen some columns at a time, in place of round_to_grid; else null.
  const VectorCodes* vectors;
  /// Of formats outside the list, and of all without the library; null: every KernelTable has them.
  const FormatKernels* own_kernels;
};

#if !defined(BANTAM_HEADER_ONLY)  // a list that knows every format compiles every format
/// All formats, in list order.
[[nodiscard]] std::span<const FormatInfo> formats() noexcept;
/// GGUF's types of 1 to 3 bits that look vectors of weights up in grids, to be written: "iq2_xxs.g32". Files of theirs need fewer bits than
/// the formats that hold their values in memory, whose kernels, layout and number they have here.
[[nodiscard]] std::span<const FormatInfo> vector_formats() noexcept;

/// By name, case ignored: the full name ("i4.g64"), a family with its usual group ("i4", "int4", "q4", "nf4") or with
/// the group given apart, and GGUF's names of equal formats ("q4_0", "q8_0", "q4_1"). group -1 means the usual one,
/// 0 the whole row. Throws invalid_argument naming what may have been meant, of formats and `others`.
[[nodiscard]] const FormatInfo& find_format(std::string_view name, int group = -1, std::span<const std::string_view> others = {});
/// By the number on disk; null when this build does not know it.
[[nodiscard]] const FormatInfo* find_format(FormatId id) noexcept;
#endif

/// What a table in the order of the list has for a format: of vector_formats() that of the format which holds their values. Null outside of the list.
template <class T>
[[nodiscard]] constexpr const T* entry_for(std::span<const T> table, const FormatInfo& format) noexcept {
  return format.held_index >= 0 ? &table[static_cast<std::size_t>(format.held_index)] : nullptr;
}

/// The entry of a format type.
template <QuantFormat F>
[[nodiscard]] const FormatInfo& format_info() noexcept;

}  // namespace bantam::inline v0

#include "bantam/quant/formats.hpp"

namespace bantam::inline v0 {

namespace detail {

/// Defined by bantam/kernels/own_format.hpp.
template <QuantFormat F>
struct OwnFormat;

}  // namespace detail

template <QuantFormat F>
const FormatInfo& format_info() noexcept {
#if !defined(BANTAM_HEADER_ONLY)
  if constexpr (format_index<F>() >= 0) {
    return formats()[static_cast<std::size_t>(format_index<F>())];
  } else
#endif
  {
    static_assert(requires { sizeof(detail::OwnFormat<F>); },
                  "this format is not in the list of formats: include <bantam/kernels/own_format.hpp>, which makes kernels for it "
                  "here, or add it to the list (docs/add-a-format.md)");
    return detail::OwnFormat<F>::info;
  }
}

}  // namespace bantam::inline v0
