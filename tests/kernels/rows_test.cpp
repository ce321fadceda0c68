// Kernels on one row: norms, activations, rotation, rounding to 8 bits.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cases.hpp"
#include "reference/activations.hpp"
#include "reference/norm.hpp"
#include "reference/rope.hpp"

using namespace bantam::test;
using bantam::KernelTable;

namespace {

const std::int64_t lengths[] = {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 172, 1000, 4096};

// What a float differs by from a value, in units of the value's last place.
double ulps(float found, double expected) {
  const auto nearest = static_cast<float>(expected);
  const double unit = static_cast<double>(std::nextafter(std::fabs(nearest), INFINITY)) - static_cast<double>(std::fabs(nearest));
  return std::fabs(static_cast<double>(found) - expected) / unit;
}

using Gated = void (*)(const float*, const float*, float*, std::int64_t) noexcept;

struct Rounded {
  std::vector<std::int8_t> values;
  std::vector<float> scales;
  std::vector<std::int32_t> sums;
};

/// Row 1 as a table rounds it, beside 15 others, which must stay.
Rounded quantize(const KernelTable& table, const std::vector<float>& x) {
  constexpr std::int64_t width = 16;
  const auto columns = static_cast<std::int64_t>(x.size());
  const std::int64_t stride = bantam::round_up<std::int64_t>(columns, 256);
  const auto of = [](std::int64_t count) { return static_cast<std::size_t>(width * count); };
  std::vector<std::int8_t> values(of(stride), 55);
  std::vector<std::uint8_t> interleaved(of(stride), 55);
  std::vector<float> scales(of(stride / 256), 55);
  std::vector<std::int32_t> sums(of(stride / bantam::sum_columns), 55);
  const bantam::QuantizedRows out{values.data(), scales.data(), sums.data(), stride, width, 256, interleaved.data()};
  // In two parts: a row may be shared out.
  const std::int64_t cut = columns / 2 / 256 * 256;
  table.quantize_row(x.data(), columns, out, 1, cut, columns);
  if (cut > 0) table.quantize_row(x.data(), columns, out, 1, 0, cut);

  Rounded r;
  for (std::int64_t i = 0; i < width * stride; ++i) {
    const std::int8_t value = values[static_cast<std::size_t>(i)];
    if (i / stride == 1) r.values.push_back(value);
    else REQUIRE(value == 55);
  }
  const auto row_1_of = [](const auto& all, auto& row) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i % width == 1) row.push_back(all[i]);
      else REQUIRE(all[i] == 55);
    }
  };
  row_1_of(scales, r.scales);
  row_1_of(sums, r.sums);
  for (std::int64_t i = 0; i < width * stride; ++i) {
    const std::int64_t token = i / 4 % 16, column = i / 64 * 4 + i % 4;
    REQUIRE(interleaved[static_cast<std::size_t>(i)] == (token == 1 ? 128 + r.values[static_cast<std::size_t>(column)] : 55));
  }
  return r;
}

}  // namespace

TEST_CASE("rms_norm agrees with double precision, in place too") {
  for (const KernelTable* table : bantam::kernel_tables()) {
    CAPTURE(std::string(table->name));
    for (const std::int64_t n : lengths) {
      CAPTURE(n);
      std::vector<float> x = normal_row(n, 1, 3);
      const std::vector<float> weight = normal_row(n, 2);
      const std::vector<double> expected = bantam::reference::rms_norm(x, weight, 1e-5f);
      std::vector<float> out(x.size());
      table->rms_norm(x.data(), weight.data(), 1e-5f, out.data(), n);
      // A sum of n squares is off by n/2 roundings at most in relative terms, and the root halves that; then a
      // division, a root and two products.
      const double allowed = (static_cast<double>(n) / 4 + 5) * 0x1p-24;
      int wrong = 0;
      for (std::size_t i = 0; i < x.size(); ++i) wrong += !(std::fabs(out[i] - expected[i]) <= allowed * std::fabs(expected[i]));
      CHECK(wrong == 0);
      table->rms_norm(x.data(), weight.data(), 1e-5f, x.data(), n);
      CHECK(differing_bits(x, out) == 0);
    }
  }
}

TEST_CASE("layer_norm agrees with double precision, with and without bias, far from zero too") {
  for (const KernelTable* table : bantam::kernel_tables()) {
    CAPTURE(std::string(table->name));
    for (const std::int64_t n : lengths) {
      if (n < 3) continue;  // two numbers less their mean cancel to anything
      CAPTURE(n);
      std::vector<float> x = normal_row(n, 3, 3);
      for (float& v : x) v += 5;
      const std::vector<float> weight = normal_row(n, 4);
      for (const std::vector<float>& bias : {normal_row(n, 5), std::vector<float>()}) {
        const std::vector<double> expected = bantam::reference::layer_norm(x, weight, bias, 1e-5f);
        std::vector<float> out(x.size());
        table->layer_norm(x.data(), weight.data(), bias.empty() ? nullptr : bias.data(), 1e-5f, out.data(), n);
        // No weights are ones.
        const std::vector<float> ones(x.size(), 1.0f);
        std::vector<float> plain(x.size()), same(x.size());
        table->layer_norm(x.data(), nullptr, bias.empty() ? nullptr : bias.data(), 1e-5f, plain.data(), n);
        table->layer_norm(x.data(), ones.data(), bias.empty() ? nullptr : bias.data(), 1e-5f, same.data(), n);
        CHECK(plain == same);
        // Relative to the largest output: the mean's error, up to n/2 roundings of |x| near 15, moves all of them.
        double largest = 0;
        for (const double v : expected) largest = std::max(largest, std::fabs(v));
        const double allowed = (static_cast<double>(n) / 2 + 16) * 0x1p-24 * 5 * (1 + largest);
        int wrong = 0;
        for (std::size_t i = 0; i < x.size(); ++i) wrong += !(std::fabs(out[i] - expected[i]) <= allowed);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("add adds, on every length") {
  for (const KernelTable* table : bantam::kernel_tables()) {
    for (const std::int64_t n : lengths) {
      std::vector<float> x = normal_row(n, 6);
      const std::vector<float> y = normal_row(n, 7);
      std::vector<float> expected = x;
      for (std::size_t i = 0; i < x.size(); ++i) expected[i] += y[i];
      table->add(x.data(), y.data(), n);
      CHECK(differing_bits(x, expected) == 0);
    }
  }
}

TEST_CASE("activations agree with double precision over all magnitudes") {
  std::vector<float> x;
  for (double size = 1e-6; size < 90; size *= 1.0003) {
    x.push_back(static_cast<float>(size));
    x.push_back(static_cast<float>(-size));
  }
  x.push_back(0.0f);
  std::vector<float> out(x.size());
  const auto n = static_cast<std::int64_t>(x.size());
  for (const KernelTable* table : bantam::kernel_tables()) {
    CAPTURE(std::string(table->name));
    double worst = 0;
    table->silu_mul(x.data(), nullptr, out.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      // Below -87 both are zero for every use: the exponential stops at 1e-38.
      if (x[i] > -87) worst = std::max(worst, std::fabs(out[i] - bantam::reference::silu(x[i])) / (std::fabs(bantam::reference::silu(x[i])) + 1e-30));
      else CHECK(std::fabs(out[i]) < 1e-35f);
    }
    // Two ulp of the exponential, and three roundings.
    CHECK(worst < 4 * 0x1p-23);

    worst = 0;
    table->gelu_tanh_mul(x.data(), nullptr, out.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::fabs(out[i] - bantam::reference::gelu_tanh(x[i])) / std::fabs(x[i] + 1e-30));
    // 1 + tanh is a difference of numbers near 1: absolute, a few units of 2^-24, times |x| / 2.
    CHECK(worst < 4 * 0x1p-24);

    worst = 0;
    table->gelu_erf_mul(x.data(), nullptr, out.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::fabs(out[i] - bantam::reference::gelu(x[i])) / std::fabs(x[i] + 1e-30));
    // Abramowitz and Stegun state 1.5e-7 for erf; half of it times |x|, and roundings.
    CHECK(worst < 0.75e-7 + 3 * 0x1p-24);
  }
}

TEST_CASE("activations are the same bits on every table, gated or not, in place or not") {
  for (const std::int64_t n : lengths) {
    CAPTURE(n);
    std::vector<float> gate = normal_row(n, 8, 4);
    gate[0] = 200;
    gate.back() = -200;
    const std::vector<float> up = normal_row(n, 9);
    for (const auto kernel : {&KernelTable::silu_mul, &KernelTable::gelu_tanh_mul, &KernelTable::gelu_erf_mul}) {
      std::vector<float> expected(gate.size());
      (generic_table().*kernel)(gate.data(), up.data(), expected.data(), n);
      std::vector<float> ungated(gate.size());
      (generic_table().*kernel)(gate.data(), nullptr, ungated.data(), n);
      for (std::size_t i = 0; i < gate.size(); ++i) CHECK(expected[i] == ungated[i] * up[i]);
      for (const KernelTable* table : bantam::kernel_tables()) {
        CAPTURE(std::string(table->name));
        std::vector<float> in_place = gate;
        (table->*kernel)(in_place.data(), up.data(), in_place.data(), n);
        CHECK(differing_bits(in_place, expected) == 0);
      }
    }
  }
}

TEST_CASE("the clamped gate agrees with double precision, and is the same bits on every table") {
  for (const std::int64_t n : lengths) {
    CAPTURE(n);
    std::vector<float> gate = normal_row(n, 8, 6), up = normal_row(n, 9, 6);
    gate[0] = 200, up[0] = -200;
    gate.back() = -200, up.back() = 200;
    std::vector<float> expected(gate.size());
    generic_table().clamped_silu_mul(gate.data(), up.data(), expected.data(), n);
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double g = std::min(static_cast<double>(gate[i]), 7.0), u = std::clamp(static_cast<double>(up[i]), -7.0, 7.0);
      const double right = g / (1 + std::exp(-1.702 * g)) * (u + 1);
      // The exponential's argument is rounded, too: off by so much more the larger it is.
      CHECK(std::fabs(expected[i] - right) <= (6 + 1.702 * std::fabs(g)) * 0x1p-23 * std::fabs(right) + 1e-30);
    }
    for (const KernelTable* table : bantam::kernel_tables()) {
      CAPTURE(std::string(table->name));
      std::vector<float> in_place = gate;
      table->clamped_silu_mul(in_place.data(), up.data(), in_place.data(), n);
      CHECK(differing_bits(in_place, expected) == 0);
    }
  }
}

TEST_CASE("xIELU agrees with double precision, and is the same bits on every table") {
  const auto softplus = [](double a) { return std::log(1 + std::exp(a)); };
  for (const double limit : {-1e-6, -0.125}) {
    const double alpha_p = 0.8, alpha_n = -0.6, slope = 0.5;
    const bantam::Xielu curve{static_cast<float>(softplus(alpha_p)), static_cast<float>(slope + softplus(alpha_n)), 0.5F, static_cast<float>(limit)};
    for (const std::int64_t n : lengths) {
      CAPTURE(n);
      std::vector<float> x = normal_row(n, 8, 4);
      x[0] = 200;
      x.back() = -200;
      std::vector<float> expected = x;
      generic_table().xielu(expected.data(), curve, n);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double right = bantam::reference::xielu(x[i], alpha_p, alpha_n, slope, limit);
        // Near 0 the exponential less 1 is off by a few units of 2^-24; else the products are, by as many of the result and of x.
        CHECK(std::fabs(expected[i] - right) <= 8 * 0x1p-24 * (1 + std::fabs(right) + std::fabs(static_cast<double>(x[i]))));
      }
      for (const KernelTable* table : bantam::kernel_tables()) {
        CAPTURE(std::string(table->name));
        std::vector<float> again = x;
        table->xielu(again.data(), curve, n);
        CHECK(differing_bits(again, expected) == 0);
      }
    }
  }
}

TEST_CASE("activations carry NaN along and bear infinities") {
  const std::vector<float> x = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 1, 2, 3, NAN};
  std::vector<float> out(x.size());
  for (const KernelTable* table : bantam::kernel_tables()) {
    CAPTURE(std::string(table->name));
    for (const Gated kernel : {table->silu_mul, table->gelu_tanh_mul, table->gelu_erf_mul}) {
      kernel(x.data(), nullptr, out.data(), static_cast<std::int64_t>(x.size()));
      CHECK(std::isnan(out[0]));
      CHECK(std::isnan(out[8]));
      CHECK_FALSE(std::isfinite(out[1]));
      CHECK(out[3] == 1e30f);
      // e^-x ends at 2e38: what is left of 1e30 is nothing.
      CHECK(std::fabs(out[4]) < 1e-7f);
      CHECK(out[6] > 1.7f);
    }
  }
}

TEST_CASE("rope agrees with complex rotation and is the same bits on every table") {
  for (const std::int64_t half : {1, 4, 5, 8, 16, 20, 32, 64}) {
    CAPTURE(half);
    const std::vector<double> theta = bantam::reference::rope_frequencies(static_cast<int>(2 * half), 10000);
    std::vector<float> cosines;
    std::vector<float> sines;
    for (const double t : theta) {
      cosines.push_back(static_cast<float>(std::cos(123 * t)));
      sines.push_back(static_cast<float>(std::sin(123 * t)));
    }
    const std::vector<float> x = normal_row(2 * half + 3, 10);
    for (const bool adjacent : {false, true}) {
      const std::vector<double> expected = bantam::reference::rotate(x, theta, 123, adjacent);
      const auto kernel = adjacent ? &KernelTable::rope_pairs : &KernelTable::rope_half;
      std::vector<float> defined = x;
      (generic_table().*kernel)(defined.data(), cosines.data(), sines.data(), half);
      for (std::size_t i = 0; i < x.size(); ++i) {
        // Two products of a rounded cosine or sine, and a sum: four roundings of numbers up to 4.
        CHECK(std::fabs(defined[i] - expected[i]) <= 4 * 4 * 0x1p-24);
      }
      for (const KernelTable* table : bantam::kernel_tables()) {
        std::vector<float> found = x;
        (table->*kernel)(found.data(), cosines.data(), sines.data(), half);
        CHECK(differing_bits(found, defined) == 0);
      }
    }
  }
}

TEST_CASE("rows rounded to 8 bits are the same on every table, and within half a step of the row") {
  for (const std::int64_t n : {1, 31, 32, 33, 100, 255, 256, 257, 300, 512, 1000}) {
    for (const double size : {1.0, 1e-20, 1e20}) {
      CAPTURE(n);
      CAPTURE(size);
      const std::vector<float> x = normal_row(n, 11, size);
      const Rounded defined = quantize(generic_table(), x);
      for (std::size_t i = 0; i < defined.values.size(); ++i) {
        if (i >= x.size()) {
          CHECK(defined.values[i] == 0);
          continue;
        }
        const double scale = static_cast<double>(defined.scales[i / 256]);
        CHECK(std::fabs(scale * defined.values[i] - static_cast<double>(x[i])) <= scale * (0.5 + 128 * 0x1p-23));
      }
      for (std::size_t g = 0; g < defined.sums.size(); ++g) {
        int sum = 0;
        for (std::size_t i = 0; i < bantam::sum_columns; ++i) sum += defined.values[g * bantam::sum_columns + i];
        CHECK(defined.sums[g] == -sum);
      }
      for (const KernelTable* table : bantam::kernel_tables()) {
        CAPTURE(std::string(table->name));
        const Rounded found = quantize(*table, x);
        CHECK(found.values == defined.values);
        CHECK(found.sums == defined.sums);
        CHECK(differing_bits(found.scales, defined.scales) == 0);
      }
    }
  }
}

TEST_CASE("rounding to 8 bits: ties to even, zeros, vanishing numbers") {
  std::vector<float> ties(256);
  for (std::size_t i = 0; i < 254; ++i) ties[i] = static_cast<float>(i) - 126.5f;
  ties[254] = 127;  // makes the step 1
  std::vector<float> tiny(256, 1e-39f);
  tiny[3] = -1e-40f;
  tiny[7] = 0;
  for (const KernelTable* table : bantam::kernel_tables()) {
    CAPTURE(std::string(table->name));
    const Rounded rounded = quantize(*table, ties);
    CHECK(rounded.scales[0] == 1.0f);
    for (std::size_t i = 0; i < 254; ++i) CHECK(rounded.values[i] == static_cast<int>(std::nearbyint(ties[i])));
    CHECK(rounded.values[254] == 127);

    const Rounded zeros = quantize(*table, std::vector<float>(300, -0.0f));
    CHECK(zeros.scales == std::vector<float>{0, 0});
    CHECK(zeros.values == std::vector<std::int8_t>(512, 0));

    const Rounded vanished = quantize(*table, tiny);
    CHECK(vanished.values == std::vector<std::int8_t>(256, 0));
    CHECK(std::isfinite(vanished.scales[0]));
  }
}

TEST_CASE("rounding to 8 bits: NaN and infinities poison the scale of their own 256 columns") {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (const std::size_t place : {256ul, 300ul, 511ul}) {
      std::vector<float> x = normal_row(700, 12);
      x[place] = bad;
      for (const KernelTable* table : bantam::kernel_tables()) {
        CAPTURE(std::string(table->name));
        const Rounded rounded = quantize(*table, x);
        CHECK(std::isfinite(rounded.scales[0]));
        CHECK(std::isnan(rounded.scales[1]));
        CHECK(std::isfinite(rounded.scales[2]));
      }
    }
  }
}

TEST_CASE("silu is good to a few units in the last place where it matters most") {
  for (const float x : {-20.0f, -5.0f, -1.0f, -0.1f, 0.1f, 1.0f, 5.0f, 20.0f}) {
    for (const KernelTable* table : bantam::kernel_tables()) {
      float out = 0;
      table->silu_mul(&x, nullptr, &out, 1);
      CHECK(ulps(out, bantam::reference::silu(x)) < 4);
    }
  }
}
