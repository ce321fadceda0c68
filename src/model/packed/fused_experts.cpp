// Slices of fused tensors.
#include "fused_experts.hpp"

#include <algorithm>

#include "bantam/core/error.hpp"
#include "bantam/quant/formats.hpp"
#include "module_tensors.hpp"

namespace bantam::inline v0 {

namespace {

/// The bytes of expert `e`, as a tensor of their own.
TensorEntry slice(const TensorEntry& all, std::int64_t e, std::int64_t experts) {
  TensorEntry one = all;
  const std::size_t size = all.bytes.size() / static_cast<std::size_t>(experts);
  one.shape.erase(one.shape.begin());
  one.bytes = all.bytes.subspan(static_cast<std::size_t>(e) * size, size);
  return one;
}

/// Which row of the roles side by side is `row` of one of them.
std::int64_t fused_row(const Fused& fused, std::int64_t row, std::int64_t rows) noexcept {
  return fused.interleaved ? row * fused.parts + fused.part : fused.part * rows + row;
}

const TensorEntry& check(const TensorEntry& entry, std::string_view type, const std::vector<std::int64_t>& shape, const std::string& folder) {
  const std::string place = message(folder, ": ", printable(entry.name));
  if (!type.empty() && entry.type != type) fail(Errc::corrupt, place, ": expected ", type, ", found ", printable(entry.type));
  if (entry.shape != shape) fail(Errc::corrupt, place, ": expected shape ", to_string(shape), ", found ", to_string(entry.shape));
  return entry;
}

class FloatExpert final : public PackedMatrix {
 public:
  FloatExpert(const TensorEntry& all, const Fused& fused, std::int64_t e, std::int64_t experts, std::int64_t rows, std::int64_t columns)
      : PackedMatrix(all.type, rows, columns), slice_(slice(all, e, experts)), values_(slice_), fused_(fused) {
    parts_ = {&slice_};
    format_ = slice_.type == "F16" ? &format_info<F16Format>() : slice_.type == "BF16" ? &format_info<BF16Format>() : &format_info<F32Format>();
  }

  void read_row(std::int64_t row, std::span<float> out) const override {
    const std::int64_t at = fused_row(fused_, row, rows_), all = fused_.parts * rows_;
    for (std::int64_t c = 0; c < columns_; ++c) out[static_cast<std::size_t>(c)] = values_[fused_.transposed ? c * all + at : at * columns_ + c];
  }
  [[nodiscard]] std::int64_t stored_bytes() const noexcept override { return PackedMatrix::stored_bytes() / fused_.parts; }

 private:
  TensorEntry slice_;
  FloatsView values_;
  Fused fused_;
};

class Mxfp4Expert final : public PackedMatrix {
 public:
  Mxfp4Expert(const TensorEntry& blocks, const TensorEntry& scales, const Fused& fused, std::int64_t e, std::int64_t experts, std::int64_t rows,
              std::int64_t columns)
      : PackedMatrix("mxfp4", rows, columns), blocks_(slice(blocks, e, experts)), scales_(slice(scales, e, experts)), fused_(fused) {
    parts_ = {&blocks_, &scales_};
    format_ = &format_info<Mxfp4>();
  }

  void read_row(std::int64_t row, std::span<float> out) const override {
    std::int8_t codes[block_columns];
    GroupSide sides[block_columns / Mxfp4::group];
    for (std::int64_t first = 0; first < columns_; first += block_columns) {
      const std::int64_t count = std::min<std::int64_t>(block_columns, columns_ - first);
      read(row, first, count, codes, sides);
      for (std::int64_t c = 0; c < count; ++c) {
        out[static_cast<std::size_t>(first + c)] = Mxfp4::levels[static_cast<std::size_t>(codes[c])] * sides[c / Mxfp4::group].scale;
      }
    }
  }
  void fill_panel(std::int64_t first_row, int rows, std::byte* panel) const override {
    std::int8_t codes[block_columns];
    GroupSide sides[block_columns / Mxfp4::group];
    for (std::int64_t first = 0; first < columns_; first += block_columns) {
      for (int row = 0; row < rows; ++row) {
        read(first_row + row, first, std::min<std::int64_t>(block_columns, columns_ - first), codes, sides);
        format_->store_block(panel, row, columns_, first, codes, sides);
      }
    }
  }
  [[nodiscard]] std::int64_t stored_bytes() const noexcept override { return PackedMatrix::stored_bytes() / fused_.parts; }

 private:
  /// Codes and scales of columns first .. first + count, whole groups.
  void read(std::int64_t row, std::int64_t first, std::int64_t count, std::int8_t* codes, GroupSide* sides) const noexcept {
    const std::int64_t begin = fused_row(fused_, row, rows_) * columns_ + first;
    for (std::int64_t c = 0; c < count; c += 2) {
      const auto two = detail::load_as<std::uint8_t>(blocks_.bytes.data() + (begin + c) / 2);
      codes[c] = static_cast<std::int8_t>(two & 15);
      codes[c + 1] = static_cast<std::int8_t>(two >> 4);
    }
    for (std::int64_t g = 0; g * Mxfp4::group < count; ++g) {
      sides[g] = {.scale = detail::power_of_two(detail::load_as<std::uint8_t>(scales_.bytes.data() + begin / Mxfp4::group + g))};
    }
  }

  TensorEntry blocks_, scales_;
  Fused fused_;
};

}  // namespace

std::vector<std::unique_ptr<const PackedMatrix>> open_fused_experts(const TensorSource& source, const std::string& folder, const std::string& name,
                                                                    const Fused& fused, std::int64_t experts, std::int64_t rows, std::int64_t columns,
                                                                    std::vector<const TensorEntry*>& taken) {
  std::vector<std::unique_ptr<const PackedMatrix>> matrices;
  const std::int64_t all = fused.parts * rows;
  if (const TensorEntry* floats = source.find(name)) {
    check(*floats, "", fused.transposed ? std::vector{experts, columns, all} : std::vector{experts, all, columns}, folder);
    if (!FloatsView(*floats).readable()) fail(Errc::unsupported, folder, ": ", printable(name), ": type ", printable(floats->type), ": not yet; what works: F32, F16, BF16");
    for (std::int64_t e = 0; e < experts; ++e) matrices.push_back(std::make_unique<FloatExpert>(*floats, fused, e, experts, rows, columns));
    taken.push_back(floats);
    return matrices;
  }
  const TensorEntry* blocks = source.find(name + "_blocks");
  if (blocks == nullptr) return matrices;
  const TensorEntry* scales = source.find(name + "_scales");
  if (scales == nullptr) fail(Errc::corrupt, folder, ": expected tensor ", printable(name), "_scales, found none of that name");
  constexpr std::int64_t group = Mxfp4::group;
  if (columns % group != 0) fail(Errc::corrupt, folder, ": ", printable(blocks->name), ": expected a multiple of ", group, " columns, the config says ", columns);
  check(*blocks, "U8", {experts, all, columns / group, group / 2}, folder);
  check(*scales, "U8", {experts, all, columns / group}, folder);
  // 255 stands for what is not a number.
  if (const auto wrong = std::ranges::find(scales->bytes, std::byte{255}); wrong != scales->bytes.end()) {
    fail(Errc::corrupt, folder, ": ", printable(scales->name), ": expected exponents up to 254, found 255 at ", wrong - scales->bytes.begin());
  }
  for (std::int64_t e = 0; e < experts; ++e) matrices.push_back(std::make_unique<Mxfp4Expert>(*blocks, *scales, fused, e, experts, rows, columns));
  taken.insert(taken.end(), {blocks, scales});
  return matrices;
}

}  // namespace bantam::inline v0
