// What portable code knows of a format, from its type.
#pragma once

#include "bantam/quant/format_info.hpp"

namespace bantam::inline v0::detail {

/// `index`: its place in the list; -1: outside.
template <QuantFormat F>
[[nodiscard]] constexpr FormatInfo describe_format(int index) {
  using L = Strip16<F>;
  FormatInfo info{};
  info.name = F::name;
  info.id = F::id;
  info.held_index = index;
  info.group = F::group;
  info.is_float = is_float_format<F>;
  info.activation_block = L::activation_block;
  info.bits_per_weight = 8.0 * static_cast<double>(L::matrix_bytes(panel_rows, 4096)) / (panel_rows * 4096);
  info.matrix_bytes = [](std::int64_t rows, std::int64_t columns) noexcept { return L::matrix_bytes(rows, columns); };
  info.panel_bytes = [](std::int64_t columns) noexcept { return L::panel_bytes(columns); };
  info.kept = kept_by<typename F::Plane>;
  if constexpr (kept_by<typename F::Plane> != Kept::all) info.keep_part = keep_part<F>;
  info.encode_row = encode_row<F>;
  info.decode_row = decode_row<F>;
  if constexpr (!is_float_format<F>) {
    info.load_codes = load_codes<F>;
    info.store_codes = store_codes<F>;
    info.store_rows = store_rows<F>;
    info.step_bits = step_bits<typename F::Plane>;
    info.grid_columns = grid_columns<F>;
    info.has_minimums = has_minimums<F>;
    info.fit_grid = fit_grid<F>;
    if constexpr (!L::trellis) info.round_to_grid = round_to_grid<F>;
    info.decode_code = decode_code<F>;
    if constexpr (L::group_scales) info.stored_scale = [](float scale) noexcept { return L::f16_scales ? float(f16(scale)) : scale; };
  }
  return info;
}

}  // namespace bantam::inline v0::detail
