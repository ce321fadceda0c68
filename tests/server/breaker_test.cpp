#include "server/breaker.hpp"

#include "server/noon.hpp"
#include "support.hpp"

namespace bantam::server {

namespace {

/// So many requests that end at `now`.
void end(Breaker& breaker, int times, bool failed, Breaker::Time now) {
  for (int i = 0; i < times; ++i) breaker.ended(failed, now, now);
}

Breaker opened_breaker() {
  return Breaker({.share = 0.5, .window = 30s, .rest = 10s, .least = 10, .probes = 2});
}

}  // namespace

TEST_CASE("a breaker opens past a share of failures, and not before there are some") {
  Breaker few = opened_breaker();
  end(few, 9, true, noon);
  CHECK_FALSE(few.ask(noon));
  Breaker breaker = opened_breaker();
  end(breaker, 9, false, noon);
  end(breaker, 9, true, noon);
  CHECK_FALSE(breaker.ask(noon));  // half, and not more
  end(breaker, 1, true, noon);
  CHECK(breaker.counts(noon).state == Breaker::State::open);
  const auto wait = breaker.ask(noon + 3s);
  REQUIRE(wait);
  CHECK(*wait == doctest::Approx(7));
  CHECK(breaker.counts(noon).opened == 1);
  CHECK(breaker.counts(noon).refused == 1);
}

TEST_CASE("failures that are older than the window are forgotten") {
  Breaker breaker = opened_breaker();
  end(breaker, 9, true, noon);
  end(breaker, 9, false, noon + 31s);
  end(breaker, 1, true, noon + 31s);
  CHECK(breaker.counts(noon + 31s).state == Breaker::State::closed);
  CHECK(breaker.counts(noon + 31s).share == doctest::Approx(0.1));
}

TEST_CASE("after a rest one request at a time is let through, and enough that go well let all in") {
  Breaker breaker = opened_breaker();
  end(breaker, 10, true, noon);
  CHECK(breaker.ask(noon + 9s));
  CHECK_FALSE(breaker.ask(noon + 10s));
  CHECK(breaker.counts(noon + 10s).state == Breaker::State::half_open);
  CHECK(breaker.ask(noon + 11s));
  breaker.ended(false, noon + 10s, noon + 12s);
  CHECK_FALSE(breaker.ask(noon + 12s));
  CHECK(breaker.ask(noon + 12s));
  breaker.ended(false, noon + 12s, noon + 13s);
  CHECK(breaker.counts(noon + 13s).state == Breaker::State::closed);
  CHECK_FALSE(breaker.ask(noon + 13s));
}

TEST_CASE("a probe that fails opens the breaker again") {
  Breaker breaker = opened_breaker();
  end(breaker, 10, true, noon);
  CHECK_FALSE(breaker.ask(noon + 10s));
  breaker.ended(true, noon + 10s, noon + 12s);
  CHECK(breaker.counts(noon + 12s).state == Breaker::State::open);
  CHECK(breaker.ask(noon + 21s));
  CHECK_FALSE(breaker.ask(noon + 22s));
}

TEST_CASE("a probe that is never heard of holds nobody up for longer than a rest") {
  Breaker breaker = opened_breaker();
  end(breaker, 10, true, noon);
  CHECK_FALSE(breaker.ask(noon + 10s));
  CHECK(breaker.ask(noon + 19s));
  CHECK_FALSE(breaker.ask(noon + 20s));
}

TEST_CASE("requests from before a breaker opened say nothing of after") {
  Breaker breaker = opened_breaker();
  end(breaker, 10, true, noon);
  CHECK_FALSE(breaker.ask(noon + 10s));
  breaker.ended(true, noon - 5s, noon + 11s);
  CHECK(breaker.counts(noon + 11s).state == Breaker::State::half_open);
  breaker.ended(false, noon + 10s, noon + 12s);
  breaker.ended(false, noon + 10s, noon + 12s);
  CHECK(breaker.counts(noon + 12s).state == Breaker::State::closed);
  end(breaker, 1, true, noon + 12s);
  for (int i = 0; i < 20; ++i) breaker.ended(true, noon - 5s, noon + 13s);
  CHECK(breaker.counts(noon + 13s).state == Breaker::State::closed);
}

TEST_CASE("a breaker that is off lets everything in") {
  Breaker breaker({});
  end(breaker, 100, true, noon);
  CHECK_FALSE(breaker.ask(noon));
  CHECK_FALSE(breaker.is_late(1e9));
  CHECK(Breaker({.share = 0.5, .first_token_s = 2}).is_late(2.1));
}

}  // namespace bantam::server
