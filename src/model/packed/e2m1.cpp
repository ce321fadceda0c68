// Reading E2M1 numbers and what they are multiplied by.
#include "e2m1.hpp"

#include <algorithm>
#include <cmath>

#include "../sources/fill_rows.hpp"
#include "../sources/transforms.hpp"
#include "bantam/quant/formats.hpp"

namespace bantam::inline v0 {

namespace {

GroupSide side_of(std::uint8_t byte, float unit, std::type_identity<Nvfp4>) noexcept {
  return {.scale = detail::magnitude_of_e4m3(byte) * unit, .unit = unit};
}
GroupSide side_of(std::uint8_t byte, float /*unit*/, std::type_identity<Mxfp4>) noexcept { return {.scale = detail::power_of_two(byte)}; }

/// F: Mxfp4 or Nvfp4. parts: codes, scales, then what else belongs to them.
template <class F>
class E2m1Source final : public MatrixSource {
 public:
  E2m1Source(std::string description, std::vector<TensorPart> parts, std::int64_t rows, std::int64_t columns, float unit)
      : MatrixSource(std::move(description), rows, columns), unit_(unit) {
    parts_ = std::move(parts);
    format_ = &format_info<F>();
  }

  void read_row(std::int64_t row, std::span<float> out, RowCodes& /*scratch*/) const override {
    std::int8_t codes[block_columns];
    GroupSide sides[block_columns / F::group];
    for (std::int64_t first = 0; first < columns_; first += block_columns) {
      const std::int64_t count = std::min<std::int64_t>(block_columns, columns_ - first);
      read(row, first, count, codes, sides);
      for (std::int64_t c = 0; c < count; ++c) out[static_cast<std::size_t>(first + c)] = decode_code<F>(codes[c], sides[c / F::group]);
    }
  }
  void fill_panel(std::span<const std::int64_t> rows, int place, std::byte* panel) const override {
    fill_rows(*format_, panel, place, static_cast<int>(rows.size()), columns_, [&](int row, std::int64_t first, std::int64_t count, BlockCodes& block) {
      read(rows[static_cast<std::size_t>(row)], first, count, block.codes, block.sides);
    });
  }
  [[nodiscard]] std::shared_ptr<const MatrixSource> select(const Selection& rows) const override {
    if (!rows.is_run()) return nullptr;
    std::vector<TensorPart> some = parts_;
    for (TensorPart& part : std::span(some).first(2)) {
      const std::size_t row = part.bytes.size() / static_cast<std::size_t>(rows_);
      part.bytes = part.bytes.subspan(static_cast<std::size_t>(rows.first) * row, static_cast<std::size_t>(rows.count()) * row);
    }
    return std::make_shared<E2m1Source>(description_, std::move(some), rows.count(), columns_, unit_);
  }

 private:
  /// Codes and scales of columns first .. first + count, whole groups.
  void read(std::int64_t row, std::int64_t first, std::int64_t count, std::int8_t* codes, GroupSide* sides) const noexcept {
    const std::int64_t begin = row * columns_ + first;
    for (std::int64_t c = 0; c < count; c += 2) {
      const auto two = detail::load_as<std::uint8_t>(parts_[0].bytes.data() + (begin + c) / 2);
      codes[c] = static_cast<std::int8_t>(two & 15);
      codes[c + 1] = static_cast<std::int8_t>(two >> 4);
    }
    for (std::int64_t g = 0; g * F::group < count; ++g) {
      sides[g] = side_of(detail::load_as<std::uint8_t>(parts_[1].bytes.data() + begin / F::group + g), unit_, std::type_identity<F>{});
    }
  }

  float unit_;
};

}  // namespace

std::shared_ptr<const MatrixSource> mxfp4_source(const TensorPart& codes, const TensorPart& scales, std::int64_t rows, std::int64_t columns) {
  return std::make_shared<E2m1Source<Mxfp4>>("mxfp4", std::vector{codes, scales}, rows, columns, 1.0f);
}

std::shared_ptr<MatrixSource> open_e2m1(ModuleTensors tensors, std::string_view codes, std::int64_t rows, std::int64_t columns, float unit,
                                        std::string_view family) {
  const TensorEntry* scales = tensors.peek("weight_scale");
  const bool is_nv = scales != nullptr && scales->type == "F8_E4M3";
  const int group = is_nv ? Nvfp4::group : Mxfp4::group;
  if (columns % group != 0) fail(Errc::corrupt, tensors.place(codes), ": expected a multiple of ", group, " columns, the config says ", columns);
  tensors.take(codes, "U8", {rows, columns / 2});
  // What was taken before comes behind these two.
  const auto parts = [&] {
    std::vector<TensorPart> all = tensors.taken();
    std::rotate(all.begin(), all.end() - 2, all.end());
    return all;
  };
  if (is_nv) {
    const TensorEntry& numbers = tensors.take("weight_scale", "F8_E4M3", {rows, columns / group});
    const auto wrong = std::ranges::find_if(numbers.bytes, [](std::byte b) { return b >= std::byte{0x7f}; });
    if (wrong != numbers.bytes.end()) {
      fail(Errc::corrupt, tensors.place("weight_scale"), ": expected numbers from 0 to 448, found the byte ", static_cast<int>(*wrong), " at ",
           wrong - numbers.bytes.begin());
    }
    if (!(unit > 0) || !std::isfinite(unit)) fail(Errc::corrupt, tensors.place("weight_scale"), ": expected a positive scale of the matrix, found ", unit);
    return std::make_shared<E2m1Source<Nvfp4>>(message(family, " nvfp4"), parts(), rows, columns, unit);
  }
  (void)tensors.exponents("weight_scale", {rows, columns / group});
  return std::make_shared<E2m1Source<Mxfp4>>(message(family, " mxfp4"), parts(), rows, columns, 1.0f);
}

}  // namespace bantam::inline v0
