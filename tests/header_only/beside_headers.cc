// Headers alone and the library in one program: neither disturbs the other, and both find the same.
#include "bantam/header_only.hpp"

#include <doctest/doctest.h>

#include "header_only/both.hpp"

TEST_CASE("what headers alone find is what the library finds, to the bit but for Cholesky factors") {
  const both::Found here = find_all(), there = both::found_by_library();
  CHECK(here.moments == there.moments);
  CHECK(here.nearest == there.nearest);
  CHECK(here.hqq == there.hqq);
  CHECK(here.awq == there.awq);
  CHECK(here.wanda == there.wanda);
  CHECK(here.products == there.products);
  // The library factorizes blocks by Eigen, whose sums have another order: some codes differ by one.
  CHECK(here.gptq_loss == doctest::Approx(there.gptq_loss).epsilon(1e-3));
}
