#include "server/canary.hpp"

#include <cmath>
#include <limits>

#include "support.hpp"

namespace bantam::server {

using Side = Canary::Side;

TEST_CASE("a canary takes its share of conversations, and one as a whole") {
  for (const double share : {0.0, 0.05, 0.3, 1.0}) {
    CAPTURE(share);
    Canary canary({.model = "new", .share = share});
    constexpr int count = 20000;
    int taken = 0;
    for (int i = 0; i < count; ++i) {
      const std::string beginning = std::to_string(i);
      const bool takes = canary.takes("somebody", beginning);
      taken += takes ? 1 : 0;
      REQUIRE(canary.takes("somebody", beginning) == takes);
    }
    // Four standard deviations of a binomial distribution.
    CHECK(std::abs(taken - share * count) <= 4 * std::sqrt(count * share * (1 - share)));
    CHECK(canary.counts().first + canary.counts().canary == 2 * count);
  }
}

TEST_CASE("what drifts further than it may, to either side, is rolled back once there are enough texts") {
  struct Case {
    double first, canary;
    bool goes;
  };
  for (const Case& one : {Case{1.0, 1.2, false}, Case{1.0, 1.8, true}, Case{1.0, 0.3, true}, Case{2.0, 1.6, false}, Case{1.0, std::numeric_limits<double>::quiet_NaN(), true}}) {
    CAPTURE(one.first);
    CAPTURE(one.canary);
    Canary canary({.model = "new", .share = 1, .drift = 0.5, .least = 4});
    int rolled_back = 0;
    for (int i = 0; i < 4; ++i) CHECK_FALSE(canary.ended(Side::first, 10, 10 * one.first));
    for (int i = 0; i < 8; ++i) {
      if (i < 4) CHECK_FALSE(canary.counts().drift);
      rolled_back += canary.ended(Side::canary, 10, 10 * one.canary) ? 1 : 0;
    }
    CHECK(rolled_back == (one.goes ? 1 : 0));  // it is said once
    CHECK(canary.counts().rolled_back == one.goes);
    CHECK(canary.takes("a", "b") == !one.goes);
    REQUIRE(canary.counts().drift);
    if (one.canary == one.canary) CHECK(*canary.counts().drift == doctest::Approx(one.canary - one.first));
  }
}

TEST_CASE("means are of tokens, and of the last texts") {
  Canary canary({.model = "new", .share = 1, .drift = 5, .least = 1});
  CHECK_FALSE(canary.ended(Side::first, 0, 0));
  CHECK_FALSE(canary.ended(Side::first, 30, 30));
  CHECK_FALSE(canary.ended(Side::first, 10, 50));
  CHECK(canary.counts().first_nll == doctest::Approx(2));
  for (int i = 0; i < 256; ++i) CHECK_FALSE(canary.ended(Side::first, 1, 3));
  CHECK(canary.counts().first_nll == doctest::Approx(3));
}

TEST_CASE("a canary that is rolled back by hand stays so") {
  Canary canary({.model = "new", .share = 1});
  CHECK(canary.roll_back());
  CHECK_FALSE(canary.roll_back());
  CHECK_FALSE(canary.takes("a", "b"));
  CHECK_FALSE(Canary({}).is_on());
}

}  // namespace bantam::server
