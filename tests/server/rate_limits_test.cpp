#include "server/rate_limits.hpp"

#include <map>

#include "server/noon.hpp"
#include "support.hpp"

namespace bantam::server {

namespace {

std::map<std::string, std::string> headers_of(const RateLimits::Verdict& verdict) { return {verdict.headers.begin(), verdict.headers.end()}; }

}  // namespace

TEST_CASE("a client gets a minute's requests at once, then one for each part of a minute") {
  RateLimits limits({.requests = 6});
  for (int i = 0; i < 6; ++i) CHECK(limits.ask("a", noon).exhausted.empty());
  const auto refused = limits.ask("a", noon);
  CHECK(refused.exhausted == "requests");
  CHECK(refused.limit == 6);
  CHECK(refused.wait_s == doctest::Approx(10));
  CHECK(limits.ask("a", noon + 9s).exhausted == "requests");
  CHECK(limits.ask("a", noon + 10s).exhausted.empty());
  CHECK(limits.ask("a", noon + 10s).exhausted == "requests");
  // Who pauses for an hour gets no more than a minute's worth.
  int taken = 0;
  while (limits.ask("a", noon + 1h).exhausted.empty()) ++taken;
  CHECK(taken == 6);
  CHECK(limits.counts().requests == 4);
}

TEST_CASE("clients do not share limits") {
  RateLimits limits({.requests = 1});
  CHECK(limits.ask("a", noon).exhausted.empty());
  CHECK(limits.ask("b", noon).exhausted.empty());
  CHECK_FALSE(limits.ask("a", noon).exhausted.empty());
}

TEST_CASE("tokens are owed, and requests refused until they are paid") {
  RateLimits limits({.tokens = 600});
  CHECK(limits.ask("a", noon).exhausted.empty());
  limits.spend_tokens("a", 900, noon);
  const auto refused = limits.ask("a", noon);
  CHECK(refused.exhausted == "tokens");
  CHECK(refused.wait_s == doctest::Approx(30.1));  // 301 tokens of 10 a second
  CHECK_FALSE(limits.ask("a", noon + 30s).exhausted.empty());
  CHECK(limits.ask("a", noon + 31s).exhausted.empty());
  CHECK(limits.counts().tokens == 2);
}

TEST_CASE("answers say what is left, as OpenAI's do") {
  RateLimits limits({.requests = 10, .tokens = 6000});
  limits.spend_tokens("a", 100, noon);
  const auto headers = headers_of(limits.ask("a", noon));
  CHECK(headers.at("x-ratelimit-limit-requests") == "10");
  CHECK(headers.at("x-ratelimit-remaining-requests") == "9");
  CHECK(headers.at("x-ratelimit-reset-requests") == "6s");
  CHECK(headers.at("x-ratelimit-limit-tokens") == "6000");
  CHECK(headers.at("x-ratelimit-remaining-tokens") == "5900");
  CHECK(headers.at("x-ratelimit-reset-tokens") == "1s");
  limits.spend_tokens("a", 20000, noon);
  const auto owing = headers_of(limits.ask("a", noon));
  CHECK(owing.at("x-ratelimit-remaining-tokens") == "0");
  CHECK(owing.at("x-ratelimit-reset-tokens") == "3m21s");
}

TEST_CASE("without limits nothing is kept or said") {
  RateLimits limits({});
  CHECK(limits.ask("a", noon).headers.empty());
  limits.spend_tokens("a", 5, noon);
  CHECK(limits.counts().clients == 0);
}

TEST_CASE("clients without number take bounded memory, and who asked longest ago is forgotten") {
  RateLimits limits({.requests = 1});
  (void)limits.ask("first", noon);
  for (std::size_t i = 0; i < RateLimits::most_clients; ++i) (void)limits.ask(std::to_string(i), noon);
  CHECK(limits.counts().clients == RateLimits::most_clients);
  CHECK(limits.ask("first", noon).exhausted.empty());
  CHECK_FALSE(limits.ask(std::to_string(RateLimits::most_clients - 1), noon).exhausted.empty());
}

TEST_CASE("a clock that goes back gives nothing and takes nothing") {
  RateLimits limits({.requests = 1});
  CHECK(limits.ask("a", noon).exhausted.empty());
  CHECK_FALSE(limits.ask("a", noon - 1h).exhausted.empty());
  CHECK_FALSE(limits.ask("a", noon + 59s).exhausted.empty());
  CHECK(limits.ask("a", noon + 60s).exhausted.empty());
}

TEST_CASE("addresses of a subscriber's network of IPv6 are one client") {
  CHECK(network_of("10.1.2.3") == "10.1.2.3");
  CHECK(network_of("2001:db8:1:2:3:4:5:6") == network_of("2001:db8:1:2:ffff::1"));
  CHECK(network_of("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::/64");
  CHECK(network_of("2001:db8:1:3::1") != network_of("2001:db8:1:2::1"));
  CHECK(network_of("::ffff:10.1.2.3") == "10.1.2.3");
  CHECK(network_of("unix") == "unix");
}

}  // namespace bantam::server
