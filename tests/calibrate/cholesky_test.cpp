// Blocked Cholesky factors and inverses, against their definitions in double precision.
#include "bantam/calibrate/cholesky.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "bantam/core/parallel.hpp"
#include "bantam/tensor/random.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

/// X XT + I, (n, n), X of 16 columns.
Tensor<float, 2> positive_definite(std::int64_t n) {
  const auto x = random::normal<float>({n, 16}, static_cast<std::uint64_t>(n));
  Tensor<float, 2> a({n, n});
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = i == j ? 1 : 0;
      for (std::int64_t k = 0; k < 16; ++k) sum += static_cast<double>(x(i, k)) * static_cast<double>(x(j, k));
      a(i, j) = static_cast<float>(sum);
    }
  }
  return a;
}

}  // namespace

TEST_CASE("V is upper, V^T V is the matrix, V^-1 V is one, for sizes around those of blocks") {
  for (const std::int64_t n : {1, 2, 33, 255, 256, 257, 300}) {
    CAPTURE(n);
    const auto a = positive_definite(n);
    auto v = a.clone();
    REQUIRE(factorize(v));
    auto inverse = v.clone();
    invert_upper(inverse);
    double worst = 0, worst_one = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        if (j < i) {
          CHECK(v(i, j) == a(i, j));  // not touched
          CHECK(inverse(i, j) == a(i, j));
          continue;
        }
        double sum = 0, one = 0;
        for (std::int64_t k = 0; k <= i; ++k) sum += static_cast<double>(v(k, i)) * static_cast<double>(v(k, j));
        for (std::int64_t k = i; k <= j; ++k) one += static_cast<double>(inverse(i, k)) * static_cast<double>(v(k, j));
        worst = std::max(worst, std::fabs(sum - static_cast<double>(a(i, j))) / static_cast<double>(n));
        worst_one = std::max(worst_one, std::fabs(one - (i == j ? 1.0 : 0.0)));
      }
    }
    CHECK(worst < 1e-5);
    CHECK(worst_one < 1e-4);
  }
}

TEST_CASE("a matrix that is not positive definite is said to be so, wherever that shows") {
  for (const std::int64_t at : {0, 100, 255, 256, 299}) {
    CAPTURE(at);
    auto a = positive_definite(300);
    a(at, at) = -1;
    CHECK(!factorize(a));
    a = positive_definite(300);
    a(at, at) = NAN;
    CHECK(!factorize(a));
  }
}

TEST_CASE("factors do not depend on the number of threads") {
  const auto a = positive_definite(600);
  std::vector<Tensor<float, 2>> found;
  for (const int threads : {1, 2, 0}) {
    set_parallel_threads(threads);
    found.push_back(a.clone());
    REQUIRE(factorize(found.back()));
    invert_upper(found.back());
    CHECK(std::ranges::equal(found.back().span(), found.front().span()));
  }
}

}  // namespace bantam::test
