// From other projects' codes and scales to panels.
#include "grid_matrix.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "../sources/fill_rows.hpp"
#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

namespace {

/// The largest group of a format that lies within groups of `group` of `columns`; 0: none does.
int group_within(std::int64_t group, std::int64_t columns, std::initializer_list<int> choices) {
  for (const int choice : choices) {
    if (group % choice == 0 || group >= columns) return choice;
  }
  return 0;
}

}  // namespace

void GridMatrix::take_groups(const TensorEntry& index, const std::string& place) {
  std::vector<std::int32_t> found(static_cast<std::size_t>(columns_));
  bool in_order = true;
  for (std::int64_t c = 0; c < columns_; ++c) {
    const auto group = detail::load_as<std::int32_t>(index.bytes.data() + c * 4);
    if (group < 0 || group >= groups()) {
      fail(Errc::corrupt, place, ": expected groups from 0 to ", groups() - 1, ", found ", group, " at ", c);
    }
    found[static_cast<std::size_t>(c)] = group;
    in_order = in_order && group == c / grid_.group;
  }
  if (in_order) return;
  group_of_ = std::move(found);
  ColumnPermutation order(group_of_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::int32_t c) { return group_of_[static_cast<std::size_t>(c)]; });
  // Where the groups have another size than the config says, panels have no place for them.
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (group_of(order[i]) != static_cast<std::int64_t>(i) / grid_.group) return;
  }
  order_ = std::make_shared<const ColumnPermutation>(std::move(order));
}

void GridMatrix::settle(const std::string& place) {
  const int middle = 1 << (grid_.bits - 1);
  bool centered = true;  // all zeros in the middle
  bool halves = true;    // f16 holds all scales
  for (std::int64_t g = 0; g < groups(); ++g) {
    for (std::int64_t row = 0; row < rows_; ++row) {
      const Side s = side(row, g);
      if (!std::isfinite(s.scale)) fail(Errc::corrupt, place, ": expected finite scales, found ", s.scale, " in row ", row, ", group ", g);
      halves = halves && float(f16(s.scale)) == s.scale;
      centered = centered && s.zero == middle;
    }
  }
  if (grid_.levels != nullptr) {
    const bool nf4 = std::equal(Nf4::levels.begin(), Nf4::levels.end(), grid_.levels);
    const bool fp4 = std::equal(Fp4::levels.begin(), Fp4::levels.end(), grid_.levels);
    if ((nf4 || fp4) && group_within(grid_.group, columns_, {64}) != 0) {
      format_ = &find_format(message(nf4 ? "nf4" : "fp4", halves ? "" : "w", ".g64"));
    }
  } else if (!group_of_.empty() && order_ == nullptr) {
    // Stays in f32.
  } else if (grid_.bits > 4) {
    const int group = group_within(grid_.group, columns_, {128, 32});
    if (centered && grid_.group >= columns_) {
      format_ = &format_info<Int8<0>>();
    } else if (centered && halves && group != 0) {
      format_ = &find_format("i8", group);
    }
  } else if (const int group = group_within(grid_.group, columns_, {128, 64, 32}); halves && group != 0) {
    format_ = &find_format(message("i", grid_.bits, centered && grid_.bits > 2 ? "" : "z"), group);
  }
  if (format_->is_float) {
    description_ += ", kept in f32";
    order_ = nullptr;
  } else if (order_ != nullptr) {
    description_ += ", sorted columns";
  }
}

void GridMatrix::read_row(std::int64_t row, std::span<float> out, RowCodes& /*scratch*/) const {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(columns_));
  read_codes(row, 1, codes.data());
  std::vector<Side> sides;
  for (std::int64_t g = 0; g < groups(); ++g) sides.push_back(side(row, g));
  for (std::int64_t c = 0; c < columns_; ++c) {
    const int code = codes[static_cast<std::size_t>(c)];
    const Side& s = sides[static_cast<std::size_t>(group_of(c))];
    out[static_cast<std::size_t>(c)] = grid_.levels != nullptr ? grid_.levels[code] * s.scale : s.scale * static_cast<float>(code - s.zero);
  }
}

void GridMatrix::fill_panel(std::span<const std::int64_t> wanted, int place, std::byte* panel) const {
  if (format_->is_float) return MatrixSource::fill_panel(wanted, place, panel);
  const auto rows = static_cast<int>(wanted.size());
  // Families that store columns as rows give all rows of a panel at the price of one.
  std::vector<std::uint8_t> raw(static_cast<std::size_t>(rows * columns_));
  for_each_run(wanted, [&](std::int64_t row, int at, int count) { read_codes(row, count, raw.data() + at * columns_); });
  if (order_ != nullptr) {
    const std::vector<std::uint8_t> unsorted = raw;
    for (std::int64_t i = 0; i < rows * columns_; ++i) {
      raw[static_cast<std::size_t>(i)] = unsorted[static_cast<std::size_t>(i - i % columns_ + (*order_)[static_cast<std::size_t>(i % columns_)])];
    }
  }
  const int lowered = grid_.bits > 4 ? 1 << (grid_.bits - 1) : 0;  // signed bytes
  const auto code = [&](std::uint8_t c) { return static_cast<std::int8_t>(c - lowered); };
  const auto group_side = [&](int row, std::int64_t column) {
    const Side s = side(wanted[static_cast<std::size_t>(row)], column / grid_.group);
    return GroupSide{.scale = s.scale, .zero = s.zero};
  };
  if (format_->group == 0) {  // a scale a row
    RowCodes codes;
    for (int row = 0; row < rows; ++row) {
      codes.codes.assign(static_cast<std::size_t>(round_up<std::int64_t>(columns_, 32)), 0);
      std::transform(raw.begin() + row * columns_, raw.begin() + (row + 1) * columns_, codes.codes.begin(), code);
      codes.sides.assign(1, group_side(row, 0));
      format_->store_codes(panel, place + row, columns_, codes);
    }
    return;
  }
  fill_rows(*format_, panel, place, rows, columns_, [&](int row, std::int64_t first, std::int64_t count, BlockCodes& block) {
    const std::uint8_t* from = raw.data() + row * columns_ + first;
    std::transform(from, from + count, block.codes, code);
    for (std::int64_t c = 0; c < count; c += format_->group) block.sides[c / format_->group] = group_side(row, first + c);
  });
}

}  // namespace bantam::inline v0
