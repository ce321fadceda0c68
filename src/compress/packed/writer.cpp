// The list of families, and reading matrices as the numbers that they pack.
#include "writer.hpp"

#include <algorithm>
#include <array>

#include "bantam/core/error.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/quant/strip16.hpp"

namespace bantam::inline v0 {

namespace {

template <QuantFormat F>
constexpr IntegerGrid grid_of() {
  using L = Strip16<F>;
  if constexpr (L::f16_scales && !L::minimums && !has_levels<F> && !L::trellis && kept_by<typename F::Plane> == Kept::all) {
    return {L::bits == 0 ? 8 : L::bits, L::zero_points};
  } else {
    return {0, false};
  }
}

template <QuantFormat... F>
constexpr std::array<IntegerGrid, sizeof...(F)> grids_of(FormatList<F...>) {
  return {grid_of<F>()...};
}

constexpr auto grids = grids_of(Formats{});

}  // namespace

const PackedWriter* packed_writer(Target target) noexcept {
  switch (target) {
    case Target::gptq: return &gptq_writer();
    case Target::gptq_v2: return &gptq_v2_writer();
    case Target::awq: return &awq_writer();
    case Target::bnb: return &bitsandbytes_writer();
    default: return nullptr;
  }
}

std::optional<IntegerGrid> integer_grid(const FormatInfo& format) noexcept {
  const IntegerGrid* grid = entry_for(std::span<const IntegerGrid>(grids), format);
  if (grid == nullptr || grid->bits == 0) return std::nullopt;
  return *grid;
}

void for_code_rows(const WeightMatrix& matrix, FunctionRef<void(std::int64_t row, RowCodes& codes)> f) {
  const FormatInfo& format = matrix.format();
  const std::int64_t panel_bytes = format.panel_bytes(matrix.columns());
  parallel_for(div_up<std::int64_t>(matrix.rows(), panel_rows), 1, [&](Range panels) {
    RowCodes codes;
    for (std::int64_t row = panels.begin * panel_rows; row < std::min(panels.end * panel_rows, matrix.rows()); ++row) {
      const std::byte* panel = matrix.view().data + row / panel_rows * panel_bytes;
      format.load_codes(panel, static_cast<int>(row % panel_rows), matrix.columns(), codes);
      f(row, codes);
    }
  });
}

void for_grid_rows(
    const std::string& module, const WeightMatrix& matrix,
    FunctionRef<void(std::int64_t row, std::span<const std::uint8_t> codes, std::span<const GroupSide> sides)> f) {
  const IntegerGrid grid = *integer_grid(matrix.format());
  const int middle = 1 << (grid.bits - 1);
  const int raised = grid.bits == 8 ? middle : 0;  // bytes are signed
  for_code_rows(matrix, [&](std::int64_t row, RowCodes& from) {
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(matrix.columns()));
    for (std::size_t c = 0; c < codes.size(); ++c) codes[c] = static_cast<std::uint8_t>(from.codes[c] + raised);
    for (GroupSide& side : from.sides) side.zero = grid.has_zeros ? side.zero : middle;
    for (std::int64_t g = 0; g < matrix.columns() / matrix.format().group; ++g) {
      const int zero = from.sides[static_cast<std::size_t>(g)].zero;
      if (zero < 1 << grid.bits) continue;
      fail(Errc::invalid_argument, module, ": expected zero points up to ", (1 << grid.bits) - 1, ", found ", zero, " in row ", row,
           ", group ", g);
    }
    f(row, codes, from.sides);
  });
}

}  // namespace bantam::inline v0
