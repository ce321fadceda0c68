// Rows of strip16: weights rounded to codes, codes stored in panels, and both read back.
#pragma once

#include <cmath>

#include "bantam/quant/dynamic_map.hpp"
#include "bantam/quant/strip16_store.hpp"

namespace bantam::inline v0 {

/// Decides which weights of a panel's first rows, (rows, columns), are kept, the largest; notes it in the panel where rows share
/// the decision, and sets the others to 0. Comes before rows are encoded or stored: what they have elsewhere is lost then.
template <QuantFormat F>
void keep_part(std::byte* panel, std::int64_t columns, std::span<float> rows) noexcept {
  using L = Strip16<F>;
  const auto width = static_cast<std::size_t>(columns);
  if constexpr (L::two_of_four) {
    for (std::size_t at = 0; at < rows.size(); at += width) detail::keep_two_of_four(rows.subspan(at, width));
  } else {
    static_assert(L::half_of_blocks);
    detail::for_each_block<F>(panel, columns, [&](std::byte* block, std::int64_t first, int k) {
      for (int strip = 0; static_cast<std::size_t>(strip * strip_rows) * width < rows.size(); ++strip) {
        const std::size_t at = static_cast<std::size_t>(strip * strip_rows) * width;
        const std::span<float> of_strip = rows.subspan(at, std::min(strip_rows * width, rows.size() - at));
        for (int g = 0; g < L::groups(k); ++g) {
          detail::store_as(block + L::kept_at(k, strip) + g * 4, detail::keep_half_of_blocks(of_strip, columns, first + g * L::group));
        }
      }
    });
  }
}

namespace detail {

/// What the E4M3 scales of a row are multiplied by: as the row has it, else a power of two under which scales of 4 bits are what they are, the
/// largest from 128 to 240.
[[nodiscard]] inline float e4m3_unit(std::span<const GroupSide> sides) noexcept {
  float largest = 0;
  for (const GroupSide& side : sides) {
    if (side.unit > 0) return side.unit;
    largest = std::max(largest, side.scale);
  }
  return largest > 0 ? std::ldexp(1.0f, std::max(std::ilogb(largest) - 7, -126)) : 0.0f;
}

}  // namespace detail

/// Writes row `row` (0..31) of a panel from codes. For quantized formats.
template <QuantFormat F>
void store_codes(std::byte* panel, int row, std::int64_t columns, const RowCodes& codes) {
  using L = Strip16<F>;
  if constexpr (L::row_scales) detail::store_as(panel + row * 4, codes.sides[0].scale);
  if constexpr (L::e4m3_scales) detail::store_as(panel + row * 4, detail::e4m3_unit(codes.sides));
  if constexpr (L::nested_scales) {
    double sum = 0;
    for (const GroupSide& side : codes.sides) sum += side.scale;
    const auto offset = static_cast<float>(sum / static_cast<double>(codes.sides.size()));
    float scale = 0;
    for (const GroupSide& side : codes.sides) scale = std::max(scale, std::fabs(side.scale - offset));
    detail::store_as(panel + row * 4, scale);
    detail::store_as(panel + (panel_rows + row) * 4, offset);
  }
  for (std::int64_t first = 0; first < L::padded_columns(columns); first += block_columns) {
    store_block<F>(panel, row, columns, first, codes.codes.data() + first,
                   codes.sides.data() + (L::row_scales ? 0 : first / L::group));
  }
}

/// Reads row `row` (0..31) of a panel back into codes and the numbers as stored. Inverse of store_codes.
template <QuantFormat F>
void load_codes(const std::byte* panel, int row, std::int64_t columns, RowCodes& codes) {
  using L = Strip16<F>;
  const int strip = row / strip_rows;
  const int lane = row % strip_rows;
  const std::int64_t padded = L::padded_columns(columns);
  codes.codes.resize(static_cast<std::size_t>(padded));
  codes.sides.assign(static_cast<std::size_t>(L::row_scales ? 1 : padded / L::group), {});
  if constexpr (L::row_scales) codes.sides[0].scale = detail::load_as<float>(panel + row * 4);
  detail::for_each_block<F>(panel, columns, [&](const std::byte* block, std::int64_t first, int k) {
    const std::byte* scales = block + L::scales_at(k, strip);
    for (int g = 0; g < L::groups(k) && !L::row_scales; ++g) {
      GroupSide& side = codes.sides[static_cast<std::size_t>(first / L::group + g)];
      if constexpr (L::f16_scales) side.scale = float(detail::load_as<f16>(scales + (g * strip_rows + lane) * 2));
      if constexpr (L::f32_scales) side.scale = detail::load_as<float>(scales + (g * strip_rows + lane) * 4);
      if constexpr (L::exponents) side.scale = detail::power_of_two(detail::load_as<std::uint8_t>(scales + g * strip_rows + lane));
      if constexpr (L::e4m3_scales) {
        side.unit = detail::load_as<float>(panel + row * 4);
        side.scale = detail::magnitude_of_e4m3(detail::load_as<std::uint8_t>(scales + g * strip_rows + lane)) * side.unit;
      }
      if constexpr (L::nested_scales) {
        const auto index = detail::load_as<std::uint8_t>(scales + g * strip_rows + lane);
        // One rounding for the product and the sum, as the kernels do it.
        side.scale = std::fma(dynamic_map[index], detail::load_as<float>(panel + row * 4),
                              detail::load_as<float>(panel + (panel_rows + row) * 4));
      }
      if constexpr (L::super_scales) {
        const auto number = [&](int i) { return detail::load_number<L::number_bits>(scales + L::numbers_at, L::numbers(k), i, lane); };
        side.unit = float(detail::load_as<f16>(scales + lane * 2));
        if constexpr (L::minimums) {
          side.min_unit = float(detail::load_as<f16>(scales + (strip_rows + lane) * 2));
          side.number = static_cast<std::int16_t>(number(2 * g));
          side.min_number = static_cast<std::int16_t>(number(2 * g + 1));
        } else {
          side.number = static_cast<std::int16_t>(number(g) - L::number_offset);
        }
        apply_units<F>(side);
      } else if constexpr (L::minimums) {
        side.min = float(detail::load_as<f16>(block + L::zeros_at(k, strip) + (g * strip_rows + lane) * 2));
      }
      if constexpr (L::zero_points) {
        side.zero = detail::load_as<std::uint8_t>(block + L::zeros_at(k, strip) + g * strip_rows + lane);
      }
    }
    const std::byte* plane = block + L::plane_at(k, strip);
    std::int8_t* code = codes.codes.data() + first;
    if constexpr (L::trellis) detail::load_stream<step_bits<typename F::Plane>>(plane, lane, k, code);
    for (int column = 0; !L::trellis && column < k; column += 4) {
      std::uint32_t four = 0;
      if constexpr (L::two_of_four) {
        four = detail::load_four(typename F::Plane{}, plane, lane, column);
      } else if constexpr (L::half_of_blocks) {
        const int g = column / L::group;
        const std::uint32_t kept = detail::load_kept(block + L::kept_at(k, strip) + g * 4);
        four = detail::load_four_of_blocks(plane + L::plane_bytes(g * L::group), kept, lane, column % L::group);
      } else if constexpr (L::bits == 0) {
        four = detail::load_as<std::uint32_t>(plane + L::code_at(lane, column));
      } else {
        four = detail::load_four<L::bits>(plane, lane, column);
      }
      detail::store_as(reinterpret_cast<std::byte*>(code + column), four);
    }
  });
}

/// Rounds one row to codes. `weights` holds the unpadded columns, all finite.
template <QuantFormat F>
void encode_codes(std::span<const float> weights, RowCodes& codes) {
  using L = Strip16<F>;
  const auto columns = static_cast<std::int64_t>(weights.size());
  const std::int64_t padded = L::padded_columns(columns);
  codes.codes.assign(static_cast<std::size_t>(padded), 0);
  if constexpr (L::row_scales) {
    codes.sides.assign(1, {});
    F::encode(weights, codes.codes.data(), codes.sides[0]);
  } else {
    codes.sides.assign(static_cast<std::size_t>(padded / L::group), {});
    // A group that the row ends in is fitted to the weights that are there.
    constexpr bool whole_block = L::super_scales || L::trellis;
    constexpr std::int64_t unit = whole_block ? block_columns : L::group;
    for (std::int64_t first = 0; first < columns; first += unit) {
      const auto part = weights.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(std::min(unit, columns - first)));
      const auto side = static_cast<std::size_t>(first / L::group);
      if constexpr (whole_block) {
        const auto groups = static_cast<std::size_t>(std::min(unit, padded - first) / L::group);
        F::encode(part, codes.codes.data() + first, std::span(codes.sides).subspan(side, groups));
      } else {
        F::encode(part, codes.codes.data() + first, codes.sides[side]);
      }
    }
  }
}

/// Encodes and stores row `row` (0..31) of a panel: round to nearest, or a plain conversion for float formats.
template <QuantFormat F>
void encode_row(std::byte* panel, int row, std::span<const float> weights, RowCodes& scratch) {
  using L = Strip16<F>;
  const auto columns = static_cast<std::int64_t>(weights.size());
  if constexpr (is_float_format<F>) {
    detail::for_each_block<F>(panel, columns, [&](std::byte* block, std::int64_t first, int k) {
      std::byte* plane = block + L::plane_at(k, row / strip_rows);
      const int n = static_cast<int>(std::min<std::int64_t>(k, columns - first));
      for (int column = 0; column < n; ++column) {
        const float w = weights[static_cast<std::size_t>(first + column)];
        std::byte* place = plane + L::code_at(row % strip_rows, column);
        if constexpr (std::same_as<typename F::Plane, plane::F32>) detail::store_as(place, w);
        if constexpr (std::same_as<typename F::Plane, plane::F16>) detail::store_as(place, f16(w));
        if constexpr (std::same_as<typename F::Plane, plane::BF16>) detail::store_as(place, bf16(w));
      }
    });
  } else {
    encode_codes<F>(weights, scratch);
    store_codes<F>(panel, row, columns, scratch);
  }
}

/// The weights of row `row` (0..31) of a panel, as the format defines them.
template <QuantFormat F>
void decode_row(const std::byte* panel, int row, std::span<float> weights, RowCodes& scratch) {
  using L = Strip16<F>;
  const auto columns = static_cast<std::int64_t>(weights.size());
  if constexpr (is_float_format<F>) {
    detail::for_each_block<F>(panel, columns, [&](const std::byte* block, std::int64_t first, int k) {
      const std::byte* plane = block + L::plane_at(k, row / strip_rows);
      const int n = static_cast<int>(std::min<std::int64_t>(k, columns - first));
      for (int column = 0; column < n; ++column) {
        const std::byte* place = plane + L::code_at(row % strip_rows, column);
        float& w = weights[static_cast<std::size_t>(first + column)];
        if constexpr (std::same_as<typename F::Plane, plane::F32>) w = detail::load_as<float>(place);
        if constexpr (std::same_as<typename F::Plane, plane::F16>) w = float(detail::load_as<f16>(place));
        if constexpr (std::same_as<typename F::Plane, plane::BF16>) w = float(detail::load_as<bf16>(place));
      }
    });
  } else {
    load_codes<F>(panel, row, columns, scratch);
    if constexpr (L::trellis) detail::resolve_stream<step_bits<typename F::Plane>>(scratch.codes);
    for (std::int64_t i = 0; i < columns; ++i) {
      const GroupSide& side = scratch.sides[static_cast<std::size_t>(L::row_scales ? 0 : i / L::group)];
      weights[static_cast<std::size_t>(i)] = decode_code<F>(scratch.codes[static_cast<std::size_t>(i)], side);
    }
  }
}

}  // namespace bantam::inline v0
