// Reading E2M1 numbers and their exponents.
#include "mxfp4.hpp"

#include <algorithm>

#include "../sources/transforms.hpp"
#include "bantam/quant/formats.hpp"

namespace bantam::inline v0 {

namespace {

class Mxfp4Source final : public MatrixSource {
 public:
  Mxfp4Source(const TensorPart& blocks, const TensorPart& scales, std::int64_t rows, std::int64_t columns) : MatrixSource("mxfp4", rows, columns) {
    parts_ = {blocks, scales};
    format_ = &format_info<Mxfp4>();
  }

  void read_row(std::int64_t row, std::span<float> out, RowCodes& /*scratch*/) const override {
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
  void fill_panel(std::span<const std::int64_t> rows, int place, std::byte* panel) const override {
    std::int8_t codes[block_columns];
    GroupSide sides[block_columns / Mxfp4::group];
    for (std::int64_t first = 0; first < columns_; first += block_columns) {
      for (int row = 0; row < std::ssize(rows); ++row) {
        read(rows[static_cast<std::size_t>(row)], first, std::min<std::int64_t>(block_columns, columns_ - first), codes, sides);
        format_->store_block(panel, place + row, columns_, first, codes, sides);
      }
    }
  }
  [[nodiscard]] std::shared_ptr<const MatrixSource> select(const Selection& rows) const override {
    if (!rows.is_run()) return nullptr;
    const auto some = [&](const TensorPart& part) {
      const std::size_t row = part.bytes.size() / static_cast<std::size_t>(rows_);
      return TensorPart(*part.entry, part.bytes.subspan(static_cast<std::size_t>(rows.first) * row, static_cast<std::size_t>(rows.count()) * row));
    };
    return mxfp4_source(some(parts_[0]), some(parts_[1]), rows.count(), columns_);
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
    for (std::int64_t g = 0; g * Mxfp4::group < count; ++g) {
      sides[g] = {.scale = detail::power_of_two(detail::load_as<std::uint8_t>(parts_[1].bytes.data() + begin / Mxfp4::group + g))};
    }
  }
};

}  // namespace

std::shared_ptr<const MatrixSource> mxfp4_source(const TensorPart& blocks, const TensorPart& scales, std::int64_t rows, std::int64_t columns) {
  return std::make_shared<Mxfp4Source>(blocks, scales, rows, columns);
}

}  // namespace bantam::inline v0
