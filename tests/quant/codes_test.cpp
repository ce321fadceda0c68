// Encoding, decoding and storing rows of every format.
#include <cmath>
#include <cstring>
#include <limits>

#include "bantam/core/random.hpp"
#include "bantam/quant/format_info.hpp"
#include "bantam/quant/weights.hpp"
#include "bantam/tensor/random.hpp"
#include "limits.hpp"
#include "reference/kept.hpp"
#include "support.hpp"

namespace random_tensor = bantam::random;
using bantam::GroupSide;
using bantam::RowCodes;
using bantam::Strip16;
using bantam::Tensor;

namespace {

const std::int64_t widths[] = {1, 4, 31, 32, 33, 64, 100, 172, 256, 300, 1000};
const std::int64_t heights[] = {1, 15, 16, 17, 32, 33, 100};

// Half a unit in the last place of a half, relative and among subnormal halves.
constexpr double half_relative = 0x1p-11;
constexpr double half_absolute = 0x1p-25;

/// What rounding one weight to nearest may cost at most, by the grid that the format's tags describe. `side` holds
/// the numbers before they are cut to what is stored; `spread` is the largest deviation of a row's scales from their
/// mean.
template <class F>
double bound(float w, const GroupSide& side, float spread) {
  const double step = std::fabs(static_cast<double>(side.scale));
  double grid = 0;
  double largest_code = 0;
  if constexpr (bantam::has_levels<F>) {
    auto levels = F::levels;
    std::sort(levels.begin(), levels.end());
    double gap = 0;
    for (std::size_t i = 1; i < 16; ++i) gap = std::max(gap, static_cast<double>(levels[i]) - static_cast<double>(levels[i - 1]));
    largest_code = static_cast<double>(levels[15]);
    const double steps = step > 0 ? std::fabs(static_cast<double>(w)) / step : 0;
    grid = step * std::max(gap / 2, steps - largest_code);
  } else if constexpr (Strip16<F>::bits == 0) {
    grid = step / 2;
    largest_code = 127;
  } else if constexpr (std::same_as<typename F::Zero, bantam::zero::None>) {
    // -8 .. 7 steps, say: the far side, opposite to the extreme, is cut off at 7.
    largest_code = bantam::code_offset<F>;
    const double steps = step > 0 ? static_cast<double>(w) / static_cast<double>(side.scale) : 0;
    grid = step * std::max(0.5, steps - (largest_code - 1));
  } else {
    grid = step / 2;
    largest_code = (1 << Strip16<F>::bits) - 1;
  }
  double bound = grid;
  if constexpr (Strip16<F>::f16_scales) bound += largest_code * (step * half_relative + half_absolute);
  if constexpr (Strip16<F>::minimums) bound += std::fabs(static_cast<double>(side.min)) * half_relative + half_absolute;
  // The widest step of the dynamic map is 0.9 / 64.
  if constexpr (Strip16<F>::nested_scales) bound += static_cast<double>(spread) * 0.9 / 64 / 2;
  // Products are single precision.
  return bound + 1e-6 * std::fabs(static_cast<double>(w));
}

/// Formats whose scale is a fit, which may clip: each code must be the nearest on the grid that is stored.
template <class F>
constexpr bool fitted = Strip16<F>::super_scales || std::same_as<F, bantam::Iq4Nl>;

template <class F>
double nearest_on_grid(float w, const GroupSide& side) {
  double nearest = INFINITY;
  for (int code = 0; code < 1 << Strip16<F>::bits; ++code) {
    nearest = std::min(nearest, std::fabs(static_cast<double>(w) - static_cast<double>(bantam::decode_code<F>(code, side))));
  }
  return nearest;
}

/// The weights that a format keeps, and zeros.
Tensor<float, 2> left_by(bantam::Kept kept, const Tensor<float, 2>& weights) {
  Tensor<float, 2> left = weights.clone();
  if (kept == bantam::Kept::all) return left;
  bantam::reference::Square sizes;
  for (std::int64_t r = 0; r < weights.extent(0); ++r) {
    sizes.emplace_back();
    for (std::int64_t c = 0; c < weights.extent(1); ++c) sizes.back().push_back(std::fabs(static_cast<double>(weights(r, c))));
  }
  const auto removed = bantam::reference::removed(kept, sizes);
  for (std::int64_t r = 0; r < weights.extent(0); ++r) {
    for (std::int64_t c = 0; c < weights.extent(1); ++c) {
      if (removed[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)] != 0) left(r, c) = 0;
    }
  }
  return left;
}

template <class F>
void check_error(std::int64_t rows, std::int64_t columns, double deviation, std::uint64_t seed) {
  const auto all = random_tensor::normal<float>({rows, columns}, seed, {.deviation = deviation});
  const auto decoded = bantam::quantize<F>(all).dequantize();
  const auto weights = left_by(bantam::kept_by<typename F::Plane>, all);
  std::int64_t wrong = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::span<const float> row(&weights(r, 0), static_cast<std::size_t>(columns));
    RowCodes codes;
    float spread = 0;
    if constexpr (!bantam::is_float_format<F>) {
      bantam::encode_codes<F>(row, codes);
      double mean = 0;
      for (const GroupSide& side : codes.sides) mean += static_cast<double>(side.scale) / static_cast<double>(codes.sides.size());
      for (const GroupSide& side : codes.sides) spread = std::max(spread, static_cast<float>(std::fabs(side.scale - mean)));
    }
    for (std::int64_t c = 0; c < columns; ++c) {
      const float w = weights(r, c);
      const double error = std::fabs(static_cast<double>(w) - static_cast<double>(decoded(r, c)));
      double allowed = 0;
      if constexpr (std::same_as<typename F::Plane, bantam::plane::F16>) {
        allowed = std::fabs(w) * half_relative + half_absolute;
      } else if constexpr (std::same_as<typename F::Plane, bantam::plane::BF16>) {
        allowed = std::fabs(w) * 0x1p-8;
      } else if constexpr (fitted<F>) {
        // Codes are chosen by the reciprocal of the scale: near the middle either side may win.
        const GroupSide& side = codes.sides[static_cast<std::size_t>(c / Strip16<F>::group)];
        allowed = nearest_on_grid<F>(w, side) + 1e-5 * (std::fabs(w) + std::fabs(side.scale) + std::fabs(side.min));
      } else if constexpr (!bantam::is_float_format<F>) {
        allowed = bound<F>(w, codes.sides[static_cast<std::size_t>(Strip16<F>::row_scales ? 0 : c / Strip16<F>::group)], spread);
      }
      wrong += !(error <= allowed);
      wrong += all(r, c) != 0 && w == 0 && decoded(r, c) != 0;
    }
  }
  CHECK(wrong == 0);
}

/// Codes of a panel's rows as a format can hold them: of every four two at random, or of the blocks of a strip half; padding means 0.
template <class F>
void thin(std::vector<RowCodes>& rows, std::int64_t columns, std::byte* panel, bantam::Random& random) {
  using L = Strip16<F>;
  constexpr auto zero = static_cast<std::int8_t>(bantam::code_offset<F>);
  const auto padded = static_cast<std::size_t>(L::padded_columns(columns)), width = static_cast<std::size_t>(columns);
  std::vector<int> order(L::half_of_blocks ? 32 : 4);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = width; c < padded; ++c) rows[r].codes[c] = zero;
    if (L::half_of_blocks && r % bantam::strip_rows != 0) continue;
    for (std::size_t first = 0; first < padded; first += order.size() * (L::half_of_blocks ? 4 : 1)) {
      for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.next() % (i + 1)]);
      for (std::size_t i = 0; i < order.size() / 2; ++i) {
        const auto at = static_cast<std::size_t>(order[i]);
        if (!L::half_of_blocks) rows[r].codes[first + at] = zero;
        for (std::size_t k = 0; L::half_of_blocks && k < bantam::strip_rows; ++k) std::fill_n(rows[r + k].codes.begin() + static_cast<std::ptrdiff_t>(first + 4 * at), 4, zero);
      }
    }
  }
  std::vector<float> values;
  for (const RowCodes& row : rows) {
    for (std::size_t c = 0; c < width; ++c) values.push_back(static_cast<float>(row.codes[c] - zero));
  }
  bantam::keep_part<F>(panel, columns, values);
}

/// A panel that is filled block by block, with some rows at once.
template <class F>
std::vector<std::byte> stored_by_rows(const std::vector<RowCodes>& rows, std::int64_t columns, std::vector<std::byte> panel, bantam::Random& random) {
  using L = Strip16<F>;
  const std::int64_t padded = L::padded_columns(columns);
  for (std::int64_t first = 0; first < padded; first += bantam::block_columns) {
    for (std::size_t row = 0, count = 0; row < rows.size(); row += count) {
      count = std::min<std::size_t>(rows.size() - row, 1 + random.next() % 9);
      std::vector<bantam::BlockCodes> blocks(count);
      const auto k = std::min<std::int64_t>(bantam::block_columns, padded - first);
      for (std::size_t i = 0; i < count; ++i) {
        std::copy_n(rows[row + i].codes.data() + first, k, blocks[i].codes);
        if (!L::row_scales) std::copy_n(rows[row + i].sides.data() + first / L::group, k / L::group, blocks[i].sides);
      }
      bantam::store_rows<F>(panel.data(), static_cast<int>(row), columns, first, blocks);
    }
  }
  return panel;
}

}  // namespace

TEST_CASE("every weight comes back within half a step of its format, in any shape") {
  bantam::for_each_format([](auto format) {
    using F = typename decltype(format)::type;
    CAPTURE(std::string(F::name));
    if constexpr (Strip16<F>::trellis) return;  // weights are chosen together: tests/quant/trellis_test.cpp
    std::uint64_t seed = 1;
    for (const std::int64_t columns : widths) {
      for (const std::int64_t rows : heights) {
        if (bantam::test::quick() && rows * columns > 1500) continue;
        CAPTURE(rows);
        CAPTURE(columns);
        // Weights of ordinary size, and some whose scales are subnormal halves.
        check_error<F>(rows, columns, 1.0, ++seed);
        check_error<F>(rows, columns, 1e-4, ++seed);
      }
    }
  });
}

TEST_CASE("codes and their numbers come back as they were stored, and other rows stay") {
  bantam::Random random(3);
  bantam::for_each_format([&](auto format) {
    using F = typename decltype(format)::type;
    if constexpr (!bantam::is_float_format<F>) {
      CAPTURE(std::string(F::name));
      using L = Strip16<F>;
      for (const std::int64_t columns : widths) {
        CAPTURE(columns);
        const auto padded = static_cast<std::size_t>(L::padded_columns(columns));
        std::vector<std::byte> panel(static_cast<std::size_t>(L::panel_bytes(columns)));
        std::vector<RowCodes> rows(bantam::panel_rows);
        for (RowCodes& row : rows) {
          constexpr bool bytes = L::bits == 0;
          for (std::size_t i = 0; i < padded; ++i) {
            // Of a step of odd bits the second code has one less.
            if (const int step = bantam::step_bits<typename F::Plane>; step % 2 != 0 && i % 2 != 0) {
              row.codes.push_back(static_cast<std::int8_t>(random.next() % (1u << (step / 2))));
              continue;
            }
            row.codes.push_back(static_cast<std::int8_t>(bytes ? static_cast<int>(random.next() % 256) - 128 : static_cast<int>(random.next() % (1u << L::bits))));
          }
          row.sides.resize(L::row_scales ? 1 : padded / static_cast<std::size_t>(L::group));
          for (GroupSide& side : row.sides) {
            // Values that halves hold.
            side.scale = static_cast<float>(random.next() % 1024 + 1) / 64;
            if (L::minimums) side.min = -static_cast<float>(random.next() % 1024) / 32;
            if (L::zero_points) side.zero = static_cast<int>(random.next() % ((1u << L::bits) + 1));
            if (L::exponents) side.scale = bantam::detail::power_of_two(static_cast<std::uint8_t>(random.next() % 255));
            if (L::e4m3_scales) {
              side.unit = &side == row.sides.data() ? static_cast<float>(random.next() % 1024 + 1) / 64 : row.sides[0].unit;
              side.scale = bantam::detail::magnitude_of_e4m3(static_cast<std::uint8_t>(random.next() % 128)) * side.unit;
            }
            if constexpr (L::super_scales) {
              // The groups of a block share their units.
              const std::size_t first = static_cast<std::size_t>(&side - row.sides.data()) / (256 / L::group) * (256 / L::group);
              side.unit = &side == &row.sides[first] ? static_cast<float>(random.next() % 1024 + 1) / 64 : row.sides[first].unit;
              const auto number = [&] { return static_cast<std::int16_t>(random.next() % (1u << L::number_bits)); };
              side.number = static_cast<std::int16_t>(number() - (L::minimums ? 0 : 1 << (L::number_bits - 1)));
              if (L::minimums) {
                side.min_unit = &side == &row.sides[first] ? static_cast<float>(random.next() % 1024) / 32 : row.sides[first].min_unit;
                side.min_number = number();
              }
              bantam::apply_units<F>(side);
            }
          }
        }
        if constexpr (bantam::kept_by<typename F::Plane> != bantam::Kept::all) thin<F>(rows, columns, panel.data(), random);
        std::vector<std::byte> empty = panel;
        for (int row = 0; row < bantam::panel_rows; ++row) bantam::store_codes<F>(panel.data(), row, columns, rows[static_cast<std::size_t>(row)]);
        // What belongs to whole rows stands in the header.
        std::copy_n(panel.begin(), L::header, empty.begin());
        CHECK(stored_by_rows<F>(rows, columns, std::move(empty), random) == panel);
        bool same = true;
        for (int row = 0; row < bantam::panel_rows; ++row) {
          const RowCodes& expected = rows[static_cast<std::size_t>(row)];
          RowCodes found;
          bantam::load_codes<F>(panel.data(), row, columns, found);
          same = same && found.codes == expected.codes && found.sides.size() == expected.sides.size();
          for (std::size_t g = 0; same && g < expected.sides.size(); ++g) {
            // Double-quantized scales are rounded to the dynamic map; the bound stands in the test above.
            if (!L::nested_scales) same = same && found.sides[g].scale == expected.sides[g].scale;
            same = same && found.sides[g].min == expected.sides[g].min && found.sides[g].zero == expected.sides[g].zero;
            same = same && found.sides[g].number == expected.sides[g].number && found.sides[g].min_number == expected.sides[g].min_number;
          }
        }
        CHECK(same);
      }
    }
  });
}

TEST_CASE("formats with zero points hold any GPTQ or AWQ value exactly, zeros of 2^bits too") {
  bantam::Random random(5);
  bantam::for_each_format([&](auto format) {
    using F = typename decltype(format)::type;
    if constexpr (Strip16<F>::zero_points) {
      CAPTURE(std::string(F::name));
      const std::int64_t columns = 384;
      std::vector<std::byte> panel(static_cast<std::size_t>(Strip16<F>::panel_bytes(columns)));
      RowCodes codes;
      std::vector<float> expected;
      for (int group = 0; group < columns / F::group; ++group) {
        const int zero = group % ((1 << Strip16<F>::bits) + 1);
        const bantam::f16 scale = bantam::f16::from_bits(static_cast<std::uint16_t>(random.next() % 0x7c00));
        codes.sides.push_back({.scale = float(scale), .zero = zero});
        for (int i = 0; i < F::group; ++i) {
          const int code = static_cast<int>(random.next() % (1u << Strip16<F>::bits));
          codes.codes.push_back(static_cast<std::int8_t>(code));
          expected.push_back(static_cast<float>(static_cast<double>(float(scale)) * (code - zero)));
        }
      }
      bantam::store_codes<F>(panel.data(), 20, columns, codes);
      std::vector<float> found(static_cast<std::size_t>(columns));
      RowCodes scratch;
      bantam::decode_row<F>(panel.data(), 20, found, scratch);
      CHECK(found == expected);
    }
  });
}

TEST_CASE("groups of equal weights, of zeros and of vanishing weights decode to what they were") {
  for (const bantam::FormatInfo& info : bantam::formats()) {
    CAPTURE(std::string(info.name));
    for (const float value : {0.0f, 1.0f, -1.0f, 0.25f, 1e-39f, -1e-42f}) {
      CAPTURE(value);
      Tensor<float, 2> weights({2, 70});
      for (float& w : weights.span()) w = value;
      const auto decoded = bantam::WeightMatrix::quantize(weights, info).dequantize();
      const auto left = left_by(info.kept, weights);
      if (info.step_bits != 0 && std::fabs(value) > 1e-30f) continue;  // no path repeats one weight
      // The largest weight is on every grid but for its scale's half, or the 4 bits of E4M3; what is below halves is zero.
      const float step = info.id == bantam::Nvfp4::id ? 0x1p-4f : 0.001f;
      for (std::int64_t i = 0; i < left.size(); ++i) CHECK(std::fabs(decoded.data()[i] - left.data()[i]) <= std::fabs(value) * step + 1e-7f);
    }
  }
}

TEST_CASE("weights that are not finite, or that a format cannot hold, are refused by place") {
  for (const bantam::FormatInfo& info : bantam::formats()) {
    CAPTURE(std::string(info.name));
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
      Tensor<float, 2> weights({3, 40});
      weights(1, 39) = bad;
      const std::string text = bantam::test::error_of([&] { (void)bantam::WeightMatrix::quantize(weights, info); });
      CHECK(text.starts_with("quantize: expected finite weights, found "));
      CHECK(text.ends_with(" at (1, 39)"));
    }
    Tensor<float, 2> huge({2, 40});
    huge(1, 3) = 3e38f;
    huge(1, 4) = -3e38f;
    const bool wide = info.name == "f32" || info.name == "bf16" || info.name == "i8.row" ||
                      info.name == "mxfp4.g32" || info.name == "nvfp4.g16" || info.name.find("dq") != std::string_view::npos || info.name.find("4w") != std::string_view::npos;
    if (wide) {
      const auto decoded = bantam::WeightMatrix::quantize(huge, info).dequantize();
      for (const float w : decoded.span()) CHECK(std::isfinite(w));
    } else {
      CHECK(bantam::test::error_of([&] { (void)bantam::WeightMatrix::quantize(huge, info); }) ==
            bantam::message("quantize: expected weights that ", info.name, " can hold, found 3e+38 in row 1"));
    }
  }
}

TEST_CASE("a matrix of a type and one of a run-time format are the same bytes") {
  const auto weights = random_tensor::normal<float>({40, 100}, 9);
  bantam::for_each_format([&](auto format) {
    using F = typename decltype(format)::type;
    CAPTURE(std::string(F::name));
    const bantam::WeightMatrix typed = bantam::quantize<F>(weights);
    const bantam::WeightMatrix dynamic = bantam::WeightMatrix::quantize(weights, bantam::find_format(F::name));
    CHECK(typed.bytes() == dynamic.bytes());
    CHECK(std::memcmp(typed.view().data, dynamic.view().data, static_cast<std::size_t>(typed.bytes())) == 0);
    CHECK(typed.bits_per_weight() == dynamic.format().bits_per_weight);
  });
}

TEST_CASE("the nearest integer, ties to even, is the system's") {
  for (const float x : {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 0.49999997f, 0x1p-149f, 127.5f, -128.49999f, 0x1.fffffep21f, 4194303.5f, -4194302.5f}) {
    CAPTURE(x);
    CHECK(bantam::nearest_even(x) == std::nearbyint(x));
  }
  CHECK(bantam::nearest_even(0x1.2p100f) == 0x1.2p100f);
  CHECK(bantam::nearest_even(-std::numeric_limits<float>::infinity()) == -std::numeric_limits<float>::infinity());
}

TEST_CASE("strided weights are rounded like their copy") {
  const auto wide = random_tensor::normal<float>({20, 200}, 4);
  const auto part = wide.view().slice(1, 30, 130);
  Tensor<float, 2> copy({20, 100});
  for (int r = 0; r < 20; ++r) {
    for (int c = 0; c < 100; ++c) copy(r, c) = part(r, c);
  }
  const auto a = bantam::quantize<bantam::Nf4>(part).dequantize();
  const auto b = bantam::quantize<bantam::Nf4>(copy).dequantize();
  CHECK(std::equal(a.span().begin(), a.span().end(), b.span().begin()));
}

TEST_CASE("relative error is the quotient of the norms") {
  Tensor<float, 2> a({1, 2});
  Tensor<float, 2> b({1, 2});
  CHECK(bantam::relative_error(a, b) == 0.0);
  a(0, 0) = 3;
  a(0, 1) = 4;
  b(0, 0) = 3;
  b(0, 1) = 3.5;
  CHECK(bantam::relative_error(a, b) == doctest::Approx(0.1));
  CHECK(bantam::test::error_of([&] { (void)bantam::relative_error(a, a.view().transposed()); }) ==
        "relative_error: expected equal shapes, found (1, 2) and (2, 1)");
}

TEST_CASE("codes of more weights than a format holds lose the smallest, and padding takes no place from any") {
  bantam::Random random(11);
  const auto check = [&](auto format, int lowest, int count) {
    using F = typename decltype(format)::type;
    CAPTURE(std::string(F::name));
    for (const std::int64_t columns : widths) {
      CAPTURE(columns);
      std::vector<std::byte> panel(static_cast<std::size_t>(Strip16<F>::panel_bytes(columns)));
      RowCodes codes, found;
      for (std::int64_t i = 0; i < Strip16<F>::padded_columns(columns); ++i) codes.codes.push_back(static_cast<std::int8_t>(static_cast<int>(random.next() % static_cast<unsigned>(count)) + lowest));
      codes.sides.assign(codes.codes.size() / 64, {.scale = 1.0f});
      bantam::store_codes<F>(panel.data(), 5, columns, codes);
      bantam::load_codes<F>(panel.data(), 5, columns, found);
      const int zero = bantam::code_offset<F>;
      for (std::int64_t first = 0; first < columns; first += 4) {
        std::vector<int> sizes, kept;
        for (std::int64_t c = first; c < std::min(first + 4, columns); ++c) {
          const int before = codes.codes[static_cast<std::size_t>(c)], after = found.codes[static_cast<std::size_t>(c)];
          CHECK((after == before || after == zero));
          sizes.push_back(std::abs(before - zero));
          kept.push_back(std::abs(after - zero));
        }
        std::ranges::sort(sizes, std::greater());
        std::ranges::sort(kept, std::greater());
        for (std::size_t i = 2; i < sizes.size(); ++i) sizes[i] = 0;
        CHECK(kept == sizes);
      }
    }
  };
  check(std::type_identity<bantam::Int4Pairs>{}, 0, 16);
  check(std::type_identity<bantam::Int8Pairs>{}, -128, 256);
}
