// Rotary embedding: frequencies of every scaling, rotation of heads.
#include "bantam/nn/rope.hpp"

#include <cmath>

#include "bantam/nn/ops.hpp"
#include "bantam/tensor/random.hpp"
#include "reference/rope.hpp"
#include "support.hpp"

namespace reference = bantam::reference;
using bantam::nn::Rope;
using bantam::nn::RopeOptions;
using bantam::nn::RopePairs;
using bantam::nn::RopeScaling;
using bantam::test::error_of;

namespace {

void check_frequencies(const Rope& rope, const std::vector<double>& expected) {
  REQUIRE(rope.frequencies().size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(rope.frequencies()[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("frequencies of every scaling are those of the papers") {
  for (const int d : {2, 8, 48, 64, 128}) {
    CAPTURE(d);
    check_frequencies(Rope({.dim = d, .base = 10000}), reference::rope_frequencies(d, 10000));
    check_frequencies(Rope({.dim = d, .base = 1e6, .scaling = RopeScaling::linear, .factor = 8}), reference::rope_linear(d, 1e6, 8));
    if (d > 2) {
      for (const std::int64_t length : {100, 4096, 4097, 10000}) {
        check_frequencies(Rope({.dim = d, .base = 10000, .scaling = RopeScaling::dynamic, .factor = 2, .original_context = 4096}, length),
                          reference::rope_dynamic(d, 10000, 2, 4096, static_cast<double>(length)));
      }
    }
    check_frequencies(Rope({.dim = d, .base = 500000, .scaling = RopeScaling::llama3, .factor = 32, .original_context = 8192, .low_freq_factor = 1, .high_freq_factor = 4}),
                      reference::rope_llama3(d, 500000, 32, 1, 4, 8192));
    for (const bool truncate : {true, false}) {
      check_frequencies(Rope({.dim = d, .base = 150000, .scaling = RopeScaling::yarn, .factor = 32, .original_context = 4096, .truncate = truncate}),
                        reference::rope_yarn(d, 150000, 32, 32, 1, 4096, truncate));
    }
    check_frequencies(Rope({.dim = d, .base = 1e6, .scaling = RopeScaling::yarn, .factor = 4, .original_context = 32768}),
                      reference::rope_yarn(d, 1e6, 4, 32, 1, 32768));
  }
}

TEST_CASE("scaled frequencies keep fast pairs and stretch slow ones") {
  const Rope plain({.dim = 128, .base = 500000});
  for (const RopeScaling scaling : {RopeScaling::llama3, RopeScaling::yarn}) {
    const Rope scaled({.dim = 128, .base = 500000, .scaling = scaling, .factor = 8, .original_context = 8192});
    CHECK(scaled.frequencies()[0] == plain.frequencies()[0]);
    CHECK(scaled.frequencies()[63] == doctest::Approx(plain.frequencies()[63] / 8));
    for (std::size_t i = 1; i < 64; ++i) CHECK(scaled.frequencies()[i] < scaled.frequencies()[i - 1]);
  }
}

TEST_CASE("published numbers: Llama 3.1's frequencies") {
  // base 500000, d 128, factor 8, low 1, high 4, original 8192: wavelengths 2 pi 500000^(i/64). Pair 28 is the last one
  // whose wavelength is below 2048; from pair 35 on they exceed 8192.
  const Rope rope({.dim = 128, .base = 500000, .scaling = RopeScaling::llama3, .factor = 8, .original_context = 8192});
  const auto plain = [](int i) { return std::pow(500000.0, -i / 64.0); };
  CHECK(rope.frequencies()[28] == doctest::Approx(plain(28)).epsilon(1e-12));
  CHECK(rope.frequencies()[29] < plain(29));
  CHECK(rope.frequencies()[34] > plain(34) / 8);
  CHECK(rope.frequencies()[35] == doctest::Approx(plain(35) / 8).epsilon(1e-12));
}

TEST_CASE("yarn multiplies cosines and sines by its magnitude, the others by one") {
  const Rope yarn({.dim = 64, .scaling = RopeScaling::yarn, .factor = 16, .original_context = 4096});
  CHECK(yarn.magnitude() == doctest::Approx(reference::yarn_magnitude(16)));
  CHECK(Rope({.dim = 64, .scaling = RopeScaling::yarn, .factor = 16, .original_context = 4096, .attention_factor = 1.5}).magnitude() == 1.5);
  CHECK(Rope({.dim = 64, .scaling = RopeScaling::llama3, .factor = 16, .original_context = 4096}).magnitude() == 1.0);
  std::vector<float> cosines(32);
  std::vector<float> sines(32);
  yarn.angles(0, cosines.data(), sines.data());
  for (const float c : cosines) CHECK(c == doctest::Approx(yarn.magnitude()));
  for (const float s : sines) CHECK(s == 0.0f);
}

TEST_CASE("divisors of a file divide the frequencies") {
  std::vector<float> divisors(32, 1.0f);
  divisors[5] = 2;
  divisors[31] = 8;
  std::vector<double> expected = reference::rope_frequencies(64, 10000);
  expected[5] /= 2;
  expected[31] /= 8;
  check_frequencies(Rope({.dim = 64, .divisors = divisors}), expected);
}

TEST_CASE("heads turn by complex rotation, in both pairings, at far positions too; the rest of a head stays") {
  for (const RopePairs pairs : {RopePairs::half, RopePairs::adjacent}) {
    for (const std::int64_t dim : {8, 32, 48}) {
      CAPTURE(dim);
      const std::int64_t head_dim = 48;
      const Rope rope({.dim = dim, .base = 10000, .pairs = pairs, .scaling = RopeScaling::yarn, .factor = 4, .original_context = 2048});
      auto x = bantam::random::normal<float>({5, 3, head_dim}, 1);
      const auto before = x.clone();
      const std::int64_t positions[] = {0, 1, 100, 8191, 1000000};
      bantam::ops::apply_rope(x, rope, positions);
      const std::vector<double> theta(rope.frequencies().begin(), rope.frequencies().end());
      for (int t = 0; t < 5; ++t) {
        for (int h = 0; h < 3; ++h) {
          const auto head = before[t][h].span();
          const auto expected = reference::rotate({head.begin(), head.end()}, theta, static_cast<double>(positions[t]), pairs == RopePairs::adjacent, rope.magnitude());
          // Angles are double precision; four roundings of numbers up to 5.
          for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::fabs(static_cast<double>(x(t, h, i)) - expected[i]) < 2e-6);
          for (std::int64_t i = dim; i < head_dim; ++i) CHECK(x(t, h, i) == before(t, h, i));
        }
      }
    }
  }
}

TEST_CASE("scores depend on the distance of positions alone") {
  const Rope rope({.dim = 64, .base = 10000});
  const auto q = bantam::random::normal<float>({1, 1, 64}, 2);
  const auto k = bantam::random::normal<float>({1, 1, 64}, 3);
  const auto score = [&](std::int64_t i, std::int64_t j) {
    auto a = q.clone();
    auto b = k.clone();
    bantam::ops::apply_rope(a, rope, std::array{i});
    bantam::ops::apply_rope(b, rope, std::array{j});
    double sum = 0;
    for (std::size_t n = 0; n < 64; ++n) sum += static_cast<double>(a.span()[n]) * static_cast<double>(b.span()[n]);
    return sum;
  };
  CHECK(score(17, 5) == doctest::Approx(score(112, 100)).epsilon(1e-5));
  CHECK(score(17, 5) != doctest::Approx(score(18, 5)).epsilon(1e-5));
}

TEST_CASE("options out of range are refused by name") {
  CHECK(error_of([] { Rope rope({.dim = 7}); }) == "rope: expected an even dimension above 0, found 7");
  CHECK(error_of([] { Rope rope({.dim = 0}); }) == "rope: expected an even dimension above 0, found 0");
  CHECK(error_of([] { Rope rope({.dim = 8, .base = -1}); }) == "rope: expected a base above 0, found -1");
  CHECK(error_of([] { Rope rope({.dim = 8, .base = NAN}); }) == "rope: expected a base above 0, found nan");
  CHECK(error_of([] { Rope rope({.dim = 8, .scaling = RopeScaling::linear, .factor = 0.5}); }) == "rope: expected a scaling factor of at least 1, found 0.5");
  CHECK(error_of([] { Rope rope({.dim = 8, .scaling = RopeScaling::yarn, .factor = 2}); }) == "rope: expected the original context above 0, found 0");
  CHECK(error_of([] { Rope rope({.dim = 8, .divisors = {1.0f, 2.0f}}); }) == "rope: expected 4 frequency divisors, found 2");
  CHECK(error_of([] { Rope rope({.dim = 8, .divisors = {1.0f, 2.0f, 0.0f, 1.0f}}); }) == "rope: expected frequency divisors above 0, found 0");
  CHECK(error_of([] { Rope rope({.dim = 8, .scaling = RopeScaling::llama3, .factor = 2, .original_context = 10, .low_freq_factor = 4, .high_freq_factor = 4}); }) ==
        "rope: expected frequency factors 0 < low < high, found 4 and 4");
  CHECK(error_of([] { Rope rope({.dim = 8, .base = 1, .scaling = RopeScaling::yarn, .factor = 2, .original_context = 10}); }) ==
        "rope: yarn expects a base above 1 and betas above 0, found 1, 32 and 1");
  auto x = bantam::random::normal<float>({2, 1, 8}, 1);
  CHECK(error_of([&] { bantam::ops::apply_rope(x, Rope({.dim = 16}), std::array<std::int64_t, 2>{0, 1}); }) == "rope: expected heads of at least 16, found 8");
  CHECK(error_of([&] { bantam::ops::apply_rope(x, Rope({.dim = 8}), std::array<std::int64_t, 1>{0}); }) == "rope: expected 2 positions, found 1");
}
