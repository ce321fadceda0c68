// Formats that equal those of other projects, against transcriptions of their rules.
#include <cmath>

#include "bantam/quant/dynamic_map.hpp"
#include "bantam/quant/formats.hpp"
#include "bantam/quant/strip16.hpp"
#include "bantam/tensor/random.hpp"
#include "limits.hpp"
#include "reference/bitsandbytes.hpp"
#include "reference/rounding.hpp"
#include "support.hpp"

namespace reference = bantam::reference;
using bantam::RowCodes;

namespace {

/// Encodes and stores a row, reads it back, and counts groups whose codes or f16 patterns differ from the reference.
template <class F, class Reference>
int differing_groups(std::span<const float> row, Reference&& reference_of) {
  const auto columns = static_cast<std::int64_t>(row.size());
  std::vector<std::byte> panel(static_cast<std::size_t>(bantam::Strip16<F>::panel_bytes(columns)));
  RowCodes codes;
  bantam::encode_row<F>(panel.data(), 7, row, codes);
  bantam::load_codes<F>(panel.data(), 7, columns, codes);
  int differing = 0;
  for (std::size_t g = 0; g < row.size() / 32; ++g) {
    const reference::RoundedGroup expected = reference_of(row.subspan(g * 32, 32));
    bool same = bantam::f16(codes.sides[g].scale).bits == expected.scale_bits;
    if (bantam::Strip16<F>::minimums) same = same && bantam::f16(codes.sides[g].min).bits == expected.min_bits;
    for (std::size_t i = 0; i < 32; ++i) same = same && codes.codes[g * 32 + i] == expected.codes[i];
    differing += !same;
  }
  return differing;
}

/// Rows of many sizes, with ties: multiples of 1/16 among normal numbers, signs at the extremes, equal weights.
std::vector<float> hard_row(std::uint64_t seed) {
  bantam::Random random(seed);
  std::vector<float> row;
  for (int group = 0; group < 40; ++group) {
    const double size = std::pow(10.0, static_cast<double>(random.next() % 7) - 4);
    const std::uint64_t kind = random.next() % 5;
    for (int i = 0; i < 32; ++i) {
      double x = random.normal();
      if (kind == 1) x = std::nearbyint(x * 16) / 16;
      if (kind == 2) x = std::fabs(x);
      if (kind == 3) x = random.next() % 2 == 0 ? 1 : -1;
      if (kind == 4) x = static_cast<double>(random.next() % 17) - 8;
      row.push_back(static_cast<float>(kind == 1 || kind == 4 ? x : x * size));
    }
  }
  for (int i = 0; i < 32; ++i) row.push_back(0.0f);
  return row;
}

double mean_error(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
  return sum / static_cast<double>(a.size());
}

template <class F>
std::vector<float> round_trip(std::span<const float> row) {
  std::vector<std::byte> panel(static_cast<std::size_t>(bantam::Strip16<F>::panel_bytes(static_cast<std::int64_t>(row.size()))));
  RowCodes scratch;
  bantam::encode_row<F>(panel.data(), 0, row, scratch);
  std::vector<float> out(row.size());
  bantam::decode_row<F>(panel.data(), 0, out, scratch);
  return out;
}

}  // namespace

TEST_CASE("i4.g32, i8.g32 and i4m.g32 are q4_0, q8_0 and q4_1 bit for bit") {
  for (std::uint64_t seed = 0; seed < (bantam::test::quick() ? 20u : 200u); ++seed) {
    CAPTURE(seed);
    const std::vector<float> row = hard_row(seed);
    CHECK(differing_groups<bantam::Int<4, 32>>(row, reference::q4_0) == 0);
    CHECK(differing_groups<bantam::Int8<32>>(row, reference::q8_0) == 0);
    CHECK(differing_groups<bantam::IntMin<4>>(row, reference::q4_1) == 0);
  }
}

TEST_CASE("i4z rounds on GPTQ's grid") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> row = hard_row(seed);
    for (std::size_t first = 0; first + 32 <= row.size(); first += 32) {
      const auto group = std::span(row).subspan(first, 32);
      const reference::GptqGroup expected = reference::gptq_grid(group);
      if (expected.scale == 0) continue;  // all zeros: any grid holds them
      std::int8_t codes[32];
      bantam::GroupSide side;
      bantam::IntZero<4, 32>::encode(group, codes, side);
      CHECK(static_cast<double>(side.scale) == expected.scale);
      CHECK(side.zero == expected.zero);
      CHECK(std::equal(codes, codes + 32, expected.codes.begin()));
    }
  }
}

TEST_CASE("nf4 and fp4 round to bitsandbytes' levels") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const auto row = bantam::random::normal<float>({640 + 17}, seed);
    // The format keeps the block's largest magnitude as a half: 2^-11 of it, and the reference's own last bit.
    const auto compare = [&](const std::vector<float>& found, const std::vector<double>& expected) {
      int wrong = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        wrong += std::fabs(static_cast<double>(found[i]) - expected[i]) > std::fabs(expected[i]) * 0x1.01p-11;
      }
      CHECK(wrong == 0);
    };
    compare(round_trip<bantam::Nf4>(row.span()), reference::round_blocks(row.span(), reference::nf4_levels));
    compare(round_trip<bantam::Fp4>(row.span()), reference::round_blocks(row.span(), reference::fp4_levels));
  }
}

TEST_CASE("a weight halfway between two levels takes the lower one") {
  for (std::size_t i = 0; i + 1 < 16; ++i) {
    std::vector<float> row(64, 0.0f);
    row[0] = 1.0f;
    row[1] = (bantam::Nf4::levels[i] + bantam::Nf4::levels[i + 1]) / 2;
    CHECK(round_trip<bantam::Nf4>(row)[1] == bantam::Nf4::levels[i]);
    row[1] = std::nextafter(row[1], 2.0f);
    CHECK(round_trip<bantam::Nf4>(row)[1] == bantam::Nf4::levels[i + 1]);
  }
  // FP4 around zero: a third of a level's distance decides, and negative zero is never stored.
  const std::vector<float> zeros(64, -0.0f);
  for (const float w : round_trip<bantam::Fp4>(zeros)) CHECK(w == 0.0f);
}

TEST_CASE("the dynamic map is bitsandbytes'") {
  const std::vector<double> expected = reference::dynamic_map();
  REQUIRE(expected.size() == 256);
  for (std::size_t i = 0; i < 256; ++i) {
    CAPTURE(i);
    CHECK(static_cast<double>(bantam::dynamic_map[i]) == doctest::Approx(expected[i]).epsilon(1e-6));
    CHECK(bantam::dynamic_map_index(bantam::dynamic_map[i]) == i);
  }
  bantam::Random random(2);
  for (int i = 0; i < 5000; ++i) {
    const auto x = static_cast<float>(2.2 * random.uniform() - 1.1);
    const float found = bantam::dynamic_map[bantam::dynamic_map_index(x)];
    for (const float other : bantam::dynamic_map) REQUIRE(std::fabs(found - x) <= std::fabs(other - x));
  }
}

TEST_CASE("double quantization keeps scales as the reference does") {
  const auto row = bantam::random::normal<float>({4096}, 6);
  std::vector<double> scales;
  for (std::size_t first = 0; first < 4096; first += 64) {
    float largest = 0;
    for (std::size_t i = 0; i < 64; ++i) largest = std::max(largest, std::fabs(row.span()[first + i]));
    scales.push_back(static_cast<double>(largest));
  }
  const std::vector<double> expected = reference::double_quantize(scales);
  std::vector<std::byte> panel(static_cast<std::size_t>(bantam::Strip16<bantam::Nf4Nested>::panel_bytes(4096)));
  RowCodes codes;
  bantam::encode_row<bantam::Nf4Nested>(panel.data(), 31, row.span(), codes);
  bantam::load_codes<bantam::Nf4Nested>(panel.data(), 31, 4096, codes);
  for (std::size_t g = 0; g < 64; ++g) CHECK(static_cast<double>(codes.sides[g].scale) == doctest::Approx(expected[g]).epsilon(1e-5));
}

TEST_CASE("on normal weights in blocks of 64 nf4 beats fp4 and int4-absmax, by the published figures") {
  const auto row = bantam::random::normal<float>({64 * 3000}, 1);
  const double nf4 = mean_error(row.span(), round_trip<bantam::Nf4>(row.span()));
  const double fp4 = mean_error(row.span(), round_trip<bantam::Fp4>(row.span()));
  const double nested = mean_error(row.span(), round_trip<bantam::Nf4Nested>(row.span()));
  double int4 = 0;
  for (std::size_t first = 0; first < row.span().size(); first += 64) {
    const std::vector<double> rounded = reference::absmax(row.span().subspan(first, 64), 7);
    for (std::size_t i = 0; i < 64; ++i) int4 += std::fabs(static_cast<double>(row.span()[first + i]) - rounded[i]);
  }
  int4 /= static_cast<double>(row.size());
  MESSAGE("mean absolute error: nf4 ", nf4, ", double quantized ", nested, ", fp4 ", fp4, ", int4-absmax ", int4);
  // bitsandbytes records 0.0728 and 0.0965 for standard normal weights in blocks of 64. Two percent for the sample.
  CHECK(nf4 == doctest::Approx(0.0728).epsilon(0.02));
  CHECK(fp4 == doctest::Approx(0.0965).epsilon(0.02));
  CHECK(nf4 < int4);
  CHECK(nf4 < fp4);
  CHECK(nested == doctest::Approx(nf4).epsilon(0.01));
}

TEST_CASE("smaller groups round no worse") {
  const auto weights = bantam::random::normal<float>({1024 * 16}, 12);
  const auto error = [&]<class F>(std::type_identity<F>) { return mean_error(weights.span(), round_trip<F>(weights.span())); };
  using std::type_identity;
  CHECK(error(type_identity<bantam::Int<4, 32>>{}) < error(type_identity<bantam::Int<4, 64>>{}));
  CHECK(error(type_identity<bantam::Int<4, 64>>{}) < error(type_identity<bantam::Int<4, 128>>{}));
  CHECK(error(type_identity<bantam::IntZero<4, 32>>{}) < error(type_identity<bantam::IntZero<4, 64>>{}));
  CHECK(error(type_identity<bantam::IntZero<4, 64>>{}) < error(type_identity<bantam::IntZero<4, 128>>{}));
  CHECK(error(type_identity<bantam::Int8<32>>{}) < error(type_identity<bantam::Int8<128>>{}));
  CHECK(error(type_identity<bantam::Int8<128>>{}) < error(type_identity<bantam::Int8<0>>{}));
}
