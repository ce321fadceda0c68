// Random numbers: the published sequences, the distributions, and the state that goes on.
#include "bantam/core/random.hpp"

#include <cmath>
#include <vector>

#include "support.hpp"

using bantam::Random;

TEST_CASE("the seed is spread by splitmix64") {
  // The first numbers of the authors' splitmix64.c for the seeds 0 and 1234567.
  CHECK(Random(0).state()[0] == 0xe220a8397b1dcdafU);
  CHECK(Random(0).state()[1] == 0x6e789e6aa1b965f4U);
  CHECK(Random(1234567).state()[0] == 0x599ed017fb08fc85U);
  CHECK(Random(1234567).state()[2] == 0x883ebce5a3f27c77U);
}

TEST_CASE("the numbers are xoshiro256**'s") {
  // What the authors' xoshiro256starstar.c gives from the state 1, 2, 3, 4.
  Random random = Random::from_state({1, 2, 3, 4});
  const std::vector<std::uint64_t> expected = {
      11520U,
      0U,
      1509978240U,
      1215971899390074240U,
      1216172134540287360U,
      607988272756665600U,
      16172922978634559625U,
      8476171486693032832U,
      10595114339597558777U,
      2904607092377533576U,
  };
  for (const std::uint64_t number : expected) CHECK(random.next() == number);
}

TEST_CASE("uniform numbers fill [0, 1) evenly") {
  Random random(3);
  constexpr int draws = 160000;
  std::vector<int> bins(16);
  for (int i = 0; i < draws; ++i) {
    const double x = random.uniform();
    REQUIRE((x >= 0.0 && x < 1.0 && x * 0x1p53 == std::floor(x * 0x1p53)));
    ++bins[static_cast<std::size_t>(x * 16)];
  }
  double chi_square = 0.0;
  for (const int count : bins) chi_square += (count - 1e4) * (count - 1e4) / 1e4;
  // 15 degrees of freedom: above 37.7 in one seed of a thousand.
  CHECK(chi_square < 37.7);
}

TEST_CASE("normal numbers are the polar method's, to a few units in the last place") {
  // Computed with 60 decimal digits from the same uniform numbers.
  Random random(7);
  for (const double expected : {0x1.edc0d635eea0dp-1, -0x1.3739755916c20p-2, 0x1.381c0324118c3p-2,
                                -0x1.b375fc61f0763p+0, -0x1.ab9043786fd34p+0, -0x1.088cef0d25c93p+0}) {
    CHECK(random.normal() == doctest::Approx(expected).epsilon(1e-15));
  }
}

TEST_CASE("normal numbers have the moments of the normal distribution") {
  Random random(11);
  constexpr int draws = 200000;
  double sum = 0.0;
  double squares = 0.0;
  double fourths = 0.0;
  int beyond_two = 0;
  for (int i = 0; i < draws; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
    beyond_two += std::abs(x) > 2.0;
  }
  // Five standard errors each.
  CHECK(sum / draws == doctest::Approx(0.0).scale(1.0).epsilon(5.0 / std::sqrt(draws)));
  CHECK(squares / draws == doctest::Approx(1.0).epsilon(5.0 * std::sqrt(2.0 / draws)));
  CHECK(fourths / draws == doctest::Approx(3.0).epsilon(5.0 * std::sqrt(96.0 / draws) / 3.0));
  CHECK(beyond_two == doctest::Approx(0.0455003 * draws).epsilon(5.0 * std::sqrt(0.9545 / (0.0455 * draws))));
}

TEST_CASE("normal numbers are the same bytes on every machine") {
  // A checksum recorded once: any other rounding, fused or not, of any of the numbers changes it.
  Random random(2024);
  std::uint64_t checksum = 0;
  for (int i = 0; i < 10000; ++i) checksum = checksum * 31 + std::bit_cast<std::uint64_t>(random.normal());
  CHECK(checksum == 9965679054071441909U);
}

TEST_CASE("a saved state goes on where it stood") {
  Random random(5);
  for (int i = 0; i < 100; ++i) (void)random.normal();
  Random other = Random::from_state(random.state());
  for (int i = 0; i < 100; ++i) CHECK(random.next() == other.next());
}

TEST_CASE("a state of zeros is refused") {
  CHECK(bantam::test::error_of([] { (void)Random::from_state({}); }) ==
        "random state: expected a bit that is set, found all zeros");
}
