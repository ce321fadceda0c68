// Where guesses come from, and how many are worth checking.
#include "session/speculation.hpp"

#include "support.hpp"

using bantam::look_up;
using bantam::SpeculationPolicy;
using bantam::TokenId;

namespace {

std::vector<TokenId> following(const std::vector<TokenId>& tokens, int most) { return look_up(tokens, most).following; }

}  // namespace

TEST_CASE("lookup continues as the longest, then the latest earlier occurrence did") {
  CHECK(following({}, 4).empty());
  CHECK(following({1}, 4).empty());
  CHECK(following({1, 2, 3}, 4).empty());
  CHECK(following({1, 2, 9, 1, 2}, 3) == std::vector<TokenId>{9, 1, 2});
  CHECK(following({1, 2, 9, 1, 2}, 1) == std::vector<TokenId>{9});
  // Longest first: 5 1 2 was followed by 7, the later 1 2 by 8.
  CHECK(following({5, 1, 2, 7, 1, 2, 8, 5, 1, 2}, 1) == std::vector<TokenId>{7});
  // Of equal ones the latest.
  CHECK(following({1, 2, 7, 1, 2, 8, 1, 2}, 1) == std::vector<TokenId>{8});
  CHECK(look_up(std::vector<TokenId>{1, 2, 3, 4, 5, 6, 9, 2, 3, 4, 5, 6}, 4).matched == 4);
  // What repeats is taken to go on repeating.
  CHECK(following({1, 2, 9, 1, 2}, 8) == std::vector<TokenId>{9, 1, 2, 9, 1, 2, 9, 1});
  CHECK(following({7, 7, 7, 7}, 5) == std::vector<TokenId>{7, 7, 7, 7, 7});
}

TEST_CASE("guesses are as many as pay") {
  SpeculationPolicy flat;
  for (int n = 1; n <= SpeculationPolicy::most + 1; ++n) flat.passed(n, 1.0);
  CHECK(flat.width(2, 16, 0) == 16);  // passes cost the same whatever their width
  CHECK(flat.width(2, 3, 0) == 3);
  CHECK(flat.width(2, 0, 0) == 0);
  SpeculationPolicy steep;
  for (int n = 1; n <= SpeculationPolicy::most + 1; ++n) steep.passed(n, n);
  CHECK(steep.width(2, 16, 0) == 0);  // a token more costs a pass more
  SpeculationPolicy step;
  for (int n = 1; n <= SpeculationPolicy::most + 1; ++n) step.passed(n, n <= 4 ? 1.0 : 100.0);
  CHECK(step.width(2, 16, 0) == 3);
  CHECK(step.width(0, 16, 10.0) == 0);  // a draft that is slower than the model
}

TEST_CASE("wrong guesses become rarer, right ones more, and what is not tried is forgotten") {
  SpeculationPolicy policy;
  for (int n = 1; n <= SpeculationPolicy::most + 1; ++n) policy.passed(n, 1 + 0.1 * n);
  const int before = policy.width(3, 16, 0);
  for (int i = 0; i < 50; ++i) policy.checked(3, 8, 0);
  CHECK(policy.width(3, 16, 0) < before);
  CHECK(policy.width(2, 16, 0) == before);  // another source
  for (int i = 0; i < 200; ++i) policy.checked(3, 0, 0);
  CHECK(policy.width(3, 16, 0) == before);
  for (int i = 0; i < 50; ++i) policy.checked(3, 8, 8);
  CHECK(policy.width(3, 16, 0) > before);
}

TEST_CASE("guesses of several texts go to those that are right, and are fewer where more texts run") {
  using bantam::guess_widths;
  using bantam::GuessOffer;
  // A pass is as long as its weights up to eight tokens, then as its tokens.
  const auto seconds = [](int tokens) { return tokens <= 8 ? 1.0 : tokens / 8.0; };
  const std::vector<GuessOffer> offers{{.right = 0.9, .available = 16}, {.right = 0.3, .available = 16}};
  const std::vector<int> two = guess_widths(offers, 2, 64, seconds);
  CHECK(two[0] > two[1]);
  CHECK(two[0] + two[1] >= 6);
  CHECK(guess_widths(offers, 8, 64, seconds) == std::vector<int>{0, 0});
  CHECK(guess_widths(offers, 100, 64, seconds) == std::vector<int>{0, 0});
  CHECK(guess_widths({}, 3, 64, seconds).empty());
  CHECK(guess_widths(offers, 2, 3, seconds) == std::vector<int>{1, 0});  // no wider than this
  const GuessOffer dear{.right = 0.9, .available = 16, .seconds = 10};
  CHECK(guess_widths({&dear, 1}, 1, 64, seconds) == std::vector<int>{0});
  for (int texts = 1, before = 16; texts <= 16; ++texts) {
    const int width = guess_widths({offers.data(), 1}, texts, 64, seconds).front();
    CHECK(width <= before);
    before = width;
  }
}
