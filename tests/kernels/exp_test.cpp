// The exponential, by its template: the other tables' are the same bits (activation tests compare them).
#include <cmath>

#include "bantam/kernels/math.hpp"
#include "bantam/simd/generic.hpp"
#include "support.hpp"

using bantam::simd::generic;

TEST_CASE("exp is within one unit in the last place from -87.3 to 88.3") {
  double worst = 0;
  for (double x = -87.3; x <= 88.3; x += 0.00037) {
    const auto argument = static_cast<float>(x);
    const double expected = std::exp(static_cast<double>(argument));
    const auto nearest = static_cast<float>(expected);
    const double unit = static_cast<double>(std::nextafter(nearest, INFINITY)) - static_cast<double>(nearest);
    worst = std::max(worst, std::fabs(static_cast<double>(bantam::kernels::exp<generic>(argument)) - expected) / unit);
  }
  CHECK(worst < 1);
}

TEST_CASE("exp of 0 is 1; beyond its range it stays at the ends; NaN stays NaN") {
  CHECK(bantam::kernels::exp<generic>(0.0f) == 1.0f);
  CHECK(bantam::kernels::exp<generic>(-0.0f) == 1.0f);
  for (const float x : {-88.0f, -1e10f, -INFINITY}) {
    CHECK(bantam::kernels::exp<generic>(x) > 0.0f);
    CHECK(bantam::kernels::exp<generic>(x) < 1.3e-38f);
  }
  for (const float x : {89.0f, 1e10f, INFINITY}) CHECK(bantam::kernels::exp<generic>(x) == bantam::kernels::exp<generic>(88.3f));
  CHECK(std::isnan(bantam::kernels::exp<generic>(NAN)));
  CHECK(std::isnan(bantam::kernels::exp<generic>(-NAN)));
}

TEST_CASE("exp never falls where its argument rises") {
  float before = 0;
  for (double x = -87; x <= 88; x += 0.0011) {
    const float now = bantam::kernels::exp<generic>(static_cast<float>(x));
    CHECK_FALSE(now < before);
    before = now;
  }
}

TEST_CASE("tanh agrees with double precision to 2^-23, NaN stays NaN") {
  for (double x = -12; x <= 12; x += 0.0037) {
    CHECK_FALSE(std::fabs(static_cast<double>(bantam::kernels::tanh<generic>(static_cast<float>(x))) - std::tanh(x)) > 4 * 0x1p-24);
  }
  CHECK(bantam::kernels::tanh<generic>(INFINITY) == doctest::Approx(1.0));
  CHECK(std::isnan(bantam::kernels::tanh<generic>(NAN)));
}
