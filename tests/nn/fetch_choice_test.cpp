// Which cache weights are fetched to.
#include "bantam/nn/fetch_choice.hpp"

#include "support.hpp"

using bantam::Fetch;
using namespace std::chrono_literals;

namespace {

/// What is chosen after many passes, where every seventh is disturbed; `tried`: passes at each level until then.
Fetch choice(std::chrono::nanoseconds first, std::chrono::nanoseconds second, int (&tried)[2]) {
  bantam::nn::FetchChoice choice;
  for (int pass = 0; pass < 1000; ++pass) {
    const bool is_second = choice.level() == Fetch::second_level;
    ++tried[is_second];
    choice.passed((is_second ? second : first) + (pass % 7 == 0 ? 10ms : 0ms));
  }
  return choice.level();
}

}  // namespace

TEST_CASE("passes try both levels of cache in turns, and keep the faster") {
  for (const auto scale : {10us, 1000us, 100000us}) {
    CAPTURE(scale.count());
    int tried[2] = {}, other[2] = {};
    CHECK(choice(20 * scale / 10, 30 * scale / 10, tried) == Fetch::first_level);
    CHECK(tried[1] >= 4);
    CHECK(tried[0] > 500 - (scale == 10us ? 500 : 0));
    CHECK(choice(30 * scale / 10, 20 * scale / 10, other) == Fetch::second_level);
    CHECK(other[0] >= 4);
    CHECK(std::abs(tried[1] - other[0]) <= 1);
  }
}
