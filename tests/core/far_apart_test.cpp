// An order in which neighbors are far apart.
#include "bantam/core/far_apart.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "doctest/doctest.h"

using namespace bantam;

TEST_CASE("an order that is far apart has each number once") {
  for (std::int64_t count = 1; count <= 1000; ++count) {
    CAPTURE(count);
    const std::vector<std::int64_t> order = far_apart(count);
    std::vector<std::int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    REQUIRE(static_cast<std::int64_t>(sorted.size()) == count);
    for (std::int64_t i = 0; i < count; ++i) REQUIRE(sorted[static_cast<std::size_t>(i)] == i);
    // On a ring, so that 5/8 is 3/8 the other way.
    for (std::size_t i = 1; count > 100 && i < order.size(); ++i) {
      const std::int64_t apart = std::abs(order[i] - order[i - 1]);
      REQUIRE(std::min(apart, count - apart) > count / 4);
    }
  }
}
