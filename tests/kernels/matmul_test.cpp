// Matrix products of every format on every table.
#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cases.hpp"
#include "reference/matmul.hpp"

using namespace bantam::test;
using bantam::FormatInfo;
using bantam::KernelTable;
using bantam::WeightMatrix;

namespace {

/// Calls f(rows, columns, tokens, seed) for shapes that meet every width and height, token counts 1 .. 13 and 40.
template <class F>
void for_shapes(F&& f) {
  std::uint64_t seed = 0;
  for (const std::int64_t columns : widths) {
    for (const std::int64_t rows : heights) {
      const std::int64_t tokens = seed % 14 == 13 ? 40 : static_cast<std::int64_t>(seed % 14) + 1;
      ++seed;
      if (quick() && rows * columns * tokens > 20000) continue;
      CAPTURE(columns);
      CAPTURE(rows);
      CAPTURE(tokens);
      f(rows, columns, tokens, seed);
    }
  }
}

/// The codes that stand for the smallest and the largest value. i8: -128 is no code of ours, but other projects' tensors
/// may hold it.
template <class F>
std::pair<int, int> extreme_codes() {
  if constexpr (bantam::has_levels<F>) {
    const auto [low, high] = std::minmax_element(F::levels.begin(), F::levels.end());
    return {static_cast<int>(low - F::levels.begin()), static_cast<int>(high - F::levels.begin())};
  } else if constexpr (bantam::Strip16<F>::bits == 0) {
    return {-128, 127};
  } else {
    return {0, (1 << bantam::Strip16<F>::bits) - 1};
  }
}

bool has_minimum(const FormatInfo& info) {
  bool has = false;
  bantam::for_each_format([&](auto format) {
    using F = typename decltype(format)::type;
    if (F::name == info.name) has = bantam::Strip16<F>::minimums;
  });
  return has;
}

std::vector<double> as_doubles(std::span<const float> x) { return {x.begin(), x.end()}; }

}  // namespace

TEST_CASE("products with 8-bit activations are the same bits on every table") {
  for (const FormatInfo* info : quantized_formats()) {
    CAPTURE(std::string(info->name));
    for_shapes([&](std::int64_t rows, std::int64_t columns, std::int64_t tokens, std::uint64_t seed) {
      const WeightMatrix w = random_weights(*info, rows, columns, seed);
      Inputs x(tokens, columns, seed + 1000, info->activation_block);
      const std::vector<float> expected = multiply(generic_table(), Product::q8, w, x);
      for (const KernelTable* table : bantam::kernel_tables()) {
        CAPTURE(std::string(table->name));
        CHECK(differing_bits(multiply(*table, Product::q8, w, x), expected) == 0);
      }
    });
  }
}

TEST_CASE("products with float activations are the same bits on every table") {
  for (const FormatInfo& info : bantam::formats()) {
    CAPTURE(std::string(info.name));
    for_shapes([&](std::int64_t rows, std::int64_t columns, std::int64_t tokens, std::uint64_t seed) {
      const WeightMatrix w = random_weights(info, rows, columns, seed);
      Inputs x(tokens, columns, seed + 1000, info.activation_block);
      const std::vector<float> expected = multiply(generic_table(), Product::f32, w, x);
      for (const KernelTable* table : bantam::kernel_tables()) {
        CAPTURE(std::string(table->name));
        CHECK(differing_bits(multiply(*table, Product::f32, w, x), expected) == 0);
      }
    });
  }
}

TEST_CASE("products with float activations agree with double precision") {
  for (const FormatInfo& info : bantam::formats()) {
    CAPTURE(std::string(info.name));
    for_shapes([&](std::int64_t rows, std::int64_t columns, std::int64_t tokens, std::uint64_t seed) {
      const WeightMatrix w = random_weights(info, rows, columns, seed);
      Inputs x(tokens, columns, seed + 1000, info.activation_block);
      const std::vector<double> weights = as_doubles(w.dequantize().span());
      const std::vector<double> activations = as_doubles(x.floats().span());
      const auto expected = bantam::reference::matmul(activations, weights, tokens, rows, columns);
      auto magnitude = bantam::reference::matmul_magnitude(activations, weights, tokens, rows, columns);
      const std::vector<float> found = multiply(generic_table(), Product::f32, w, x);
      int wrong = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        // 1000 additions in single precision, roundings of either sign: a few times sqrt(1000) 2^-24. With a minimum,
        // code times scale and minimum cancel: each is up to 16 times the weight that they make.
        const double allowed = (has_minimum(info) ? 16 : 1) * 1e-5 * magnitude[i];
        wrong += !(std::fabs(static_cast<double>(found[i]) - expected[i]) <= allowed);
      }
      CHECK(wrong == 0);
    });
  }
}

TEST_CASE("products with 8-bit activations agree with double precision on what was rounded") {
  bantam::for_each_format([](auto format) {
    using F = typename decltype(format)::type;
    if constexpr (!bantam::is_float_format<F>) {
      CAPTURE(std::string(F::name));
      for_shapes([&](std::int64_t rows, std::int64_t columns, std::int64_t tokens, std::uint64_t seed) {
        const WeightMatrix w = random_weights(bantam::format_info<F>(), rows, columns, seed);
        Inputs x(tokens, columns, seed + 1000, bantam::Strip16<F>::activation_block);
        std::vector<double> activations;
        for (std::int64_t t = 0; t < tokens; ++t) {
          for (std::int64_t c = 0; c < columns; ++c) activations.push_back(x.rounded(t, c));
        }
        const std::vector<double> weights = as_doubles(w.dequantize().span());
        const auto expected = bantam::reference::matmul(activations, weights, tokens, rows, columns);
        const auto magnitude = bantam::reference::matmul_magnitude(activations, weights, tokens, rows, columns);
        // Codebook levels count in 127ths: half of one, of the group's scale, a weight.
        std::vector<double> half_levels(weights.size(), 0.0);
        if constexpr (bantam::has_levels<F>) {
          bantam::RowCodes codes;
          const std::int64_t panel = bantam::Strip16<F>::panel_bytes(columns);
          for (std::int64_t r = 0; r < rows; ++r) {
            bantam::load_codes<F>(w.view().data + r / 32 * panel, static_cast<int>(r % 32), columns, codes);
            for (std::int64_t c = 0; c < columns; ++c) {
              half_levels[static_cast<std::size_t>(r * columns + c)] =
                  static_cast<double>(codes.sides[static_cast<std::size_t>(c / F::group)].scale) / 127 / 2;
            }
          }
        }
        const auto level_error = bantam::reference::matmul_magnitude(activations, half_levels, tokens, rows, columns);
        const std::vector<float> found = multiply(generic_table(), Product::q8, w, x);
        // Sums of a group are exact; what rounds is one fma a group (two with a minimum), one a block, and the decoded
        // weight that the reference starts from.
        const double roundings = 8.0 + 4.0 + 4.0;
        int wrong = 0;
        for (std::size_t i = 0; i < found.size(); ++i) {
          const double cancel = bantam::Strip16<F>::minimums ? 16 : 1;
          const double allowed = roundings * 0x1p-24 * cancel * magnitude[i] + level_error[i] * 1.0001;
          wrong += !(std::fabs(static_cast<double>(found[i]) - expected[i]) <= allowed);
        }
        CHECK(wrong == 0);
      });
    }
  });
}

TEST_CASE("many tokens at once give the bits that each gives alone") {
  for (const FormatInfo& info : bantam::formats()) {
    CAPTURE(std::string(info.name));
    const std::int64_t rows = 49, columns = 300;
    const WeightMatrix w = random_weights(info, rows, columns, 3);
    for (const Product product : {Product::q8, Product::f32}) {
      if (product == Product::q8 && info.is_float) continue;
      for (const KernelTable* table : bantam::kernel_tables()) {
        CAPTURE(std::string(table->name));
        Inputs x(quick() ? 13 : 40, columns, 4, info.activation_block);
        std::vector<float> alone(static_cast<std::size_t>(x.tokens() * rows));
        for (std::int64_t t = 0; t < x.tokens(); ++t) multiply(*table, product, w, x, alone, t, 1, 0, 2);
        // In threes they are cut into every width of tiles, too.
        for (std::int64_t tokens = 1; tokens <= 13; tokens += quick() ? 3 : 1) {
          std::vector<float> together(alone.size());
          for (std::int64_t t = 0; t < x.tokens(); t += tokens) {
            multiply(*table, product, w, x, together, t, std::min(tokens, x.tokens() - t), 0, 2);
          }
          CHECK(differing_bits(together, alone) == 0);
        }
        CHECK(differing_bits(multiply(*table, product, w, x), alone) == 0);
      }
    }
  }
}

TEST_CASE("more tokens than one pass holds give the same bits") {
  const WeightMatrix w = random_weights(bantam::find_format("i4.g32"), 40, 64, 5);
  for (const std::int64_t tokens : {250, 257, 511, 530}) {
    CAPTURE(tokens);
    Inputs x(tokens, 64, 6, w.format().activation_block);
    for (const KernelTable* table : bantam::kernel_tables()) {
      CAPTURE(std::string(table->name));
      std::vector<float> alone(static_cast<std::size_t>(tokens) * 40);
      for (std::int64_t t = 0; t < tokens; ++t) multiply(*table, Product::q8, w, x, alone, t, 1, 0, 2);
      CHECK(differing_bits(multiply(*table, Product::q8, w, x), alone) == 0);
    }
  }
}

TEST_CASE("tiles of 16 tokens, whole and in part, give the same bits and write nothing outside") {
  for (const FormatInfo* info : quantized_formats()) {
    CAPTURE(std::string(info->name));
    const std::int64_t rows = 70, columns = 600;  // the last panel has 6 rows, the last block less than the others
    const WeightMatrix w = random_weights(*info, rows, columns, 12);
    for (const std::int64_t tokens : quick() ? std::vector<std::int64_t>{17, 48} : std::vector<std::int64_t>{16, 17, 31, 32, 33, 64, 79, 97}) {
      CAPTURE(tokens);
      Inputs x(tokens, columns, 13, info->activation_block);
      const std::vector<float> expected = multiply(generic_table(), Product::q8, w, x);
      for (const KernelTable* table : bantam::kernel_tables()) {
        CAPTURE(std::string(table->name));
        std::vector<float> out(expected.size(), -777.0f);
        multiply(*table, Product::q8, w, x, out, 0, tokens, 0, 2);
        for (std::int64_t t = 0; t < tokens; ++t) CHECK(out[static_cast<std::size_t>(t * rows + 64)] == -777.0f);
        multiply(*table, Product::q8, w, x, out, 0, tokens, 2, 3);
        CHECK(differing_bits(out, expected) == 0);
      }
    }
  }
}

TEST_CASE("panels in any parts give the same bits, and a part writes nothing outside") {
  for (const FormatInfo& info : bantam::formats()) {
    CAPTURE(std::string(info.name));
    const WeightMatrix w = random_weights(info, 130, 100, 8);  // 5 panels, the last of 2 rows
    for (const Product product : {Product::q8, Product::f32}) {
      if (product == Product::q8 && info.is_float) continue;
      Inputs x(7, 100, 9, info.activation_block);
      for (const KernelTable* table : bantam::kernel_tables()) {
        CAPTURE(std::string(table->name));
        const std::vector<float> whole = multiply(*table, product, w, x);
        for (const auto& cuts : std::vector<std::vector<std::int64_t>>{{0, 1, 2, 3, 4, 5}, {0, 3, 5}, {0, 4, 4, 5}}) {
          std::vector<float> out(whole.size(), -777.0f);
          for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
            multiply(*table, product, w, x, out, 0, 7, cuts[i], cuts[i + 1]);
            if (cuts[i + 1] == 5) continue;
            for (std::int64_t t = 0; t < 7; ++t) CHECK(out[static_cast<std::size_t>(t * 130 + cuts[i + 1] * 32)] == -777.0f);
          }
          CHECK(differing_bits(out, whole) == 0);
        }
      }
    }
  }
}

TEST_CASE("codes and activations at their ends neither saturate nor wrap") {
  bantam::for_each_format([](auto format) {
    using F = typename decltype(format)::type;
    using L = bantam::Strip16<F>;
    if constexpr (!bantam::is_float_format<F> && !L::nested_scales) {
      CAPTURE(std::string(F::name));
      constexpr std::int64_t columns = 512;
      const std::int64_t rows = 32;
      const auto [low, high] = extreme_codes<F>();
      for (const int pattern : {0, 1, 2, 3}) {
        CAPTURE(pattern);
        const auto storage = bantam::allocate_storage(static_cast<std::size_t>(L::matrix_bytes(rows, columns)));
        for (int row = 0; row < rows; ++row) {
          bantam::RowCodes codes;
          for (std::int64_t c = 0; c < columns; ++c) {
            const bool up = pattern == 1 || (pattern > 1 && (c + (pattern == 3 ? row : 0)) % 2 == 0);
            codes.codes.push_back(static_cast<std::int8_t>(up ? high : low));
          }
          codes.sides.resize(L::row_scales ? 1 : columns / L::group);
          for (std::size_t g = 0; g < codes.sides.size(); ++g) {
            // Zero points at both of their ends.
            codes.sides[g] = {.scale = 1.0f, .min = L::minimums ? -7.0f : 0.0f, .zero = L::zero_points && g % 2 == 1 ? 1 << L::bits : 0};
            if (L::super_scales) codes.sides[g] = {.unit = 1.0f, .min_unit = 7.0f, .number = 1, .min_number = 1};
          }
          bantam::store_codes<F>(storage.get(), row, columns, codes);
        }
        const WeightMatrix w(bantam::format_info<F>(), rows, columns, storage);
        const auto weights = w.dequantize();
        for (const int signs : {0, 1, 2, 3}) {
          CAPTURE(signs);
          Inputs x(6, columns, 1, bantam::Strip16<F>::activation_block);
          for (std::int64_t t = 0; t < 6; ++t) {
            for (std::int64_t c = 0; c < columns; ++c) {
              const bool up = signs == 0 || (signs == 2 && c % 2 == 0) || (signs == 3 && (c / 4 + t) % 2 == 0);
              x.floats()(t, c) = up ? 127.0f : -127.0f;
            }
          }
          x.round();
          for (const KernelTable* table : bantam::kernel_tables()) {
            CAPTURE(std::string(table->name));
            const std::vector<float> found = multiply(*table, Product::q8, w, x);
            int wrong = 0;
            for (std::int64_t t = 0; t < 6; ++t) {
              for (std::int64_t r = 0; r < rows; ++r) {
                double expected = 0;
                for (std::int64_t c = 0; c < columns; ++c) expected += static_cast<double>(weights(r, c)) * static_cast<double>(x.floats()(t, c));
                // Integers below 2^24 are exact in single precision; levels are multiplied by 1/127 first.
                const double allowed = bantam::level_unit<F> < 0.5f && bantam::has_levels<F> ? 1e-6 * 512 * 127 : 0;
                wrong += !(std::fabs(static_cast<double>(found[static_cast<std::size_t>(t * rows + r)]) - expected) <= allowed);
              }
            }
            CHECK(wrong == 0);
          }
        }
      }
    }
  });
}

TEST_CASE("a NaN or an infinity among the activations reaches every output of its token, and no other token") {
  for (const FormatInfo* info : quantized_formats()) {
    CAPTURE(std::string(info->name));
    const WeightMatrix w = random_weights(*info, 40, 300, 2);
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      Inputs x(3, 300, 3, info->activation_block);
      x.floats()(1, 290) = bad;
      x.round();
      for (const KernelTable* table : bantam::kernel_tables()) {
        const std::vector<float> out = multiply(*table, Product::q8, w, x);
        for (std::size_t r = 0; r < 40; ++r) {
          CHECK(std::isfinite(out[r]));
          CHECK(std::isnan(out[40 + r]));
          CHECK(std::isfinite(out[80 + r]));
        }
      }
    }
  }
}

TEST_CASE("the arithmetic rate counts what it does") {
  for (const KernelTable* table : bantam::kernel_tables()) {
    const std::int64_t once = table->int8_rate(1);
    CHECK(once > 0);
    CHECK(table->int8_rate(10) == 10 * once);
  }
}
