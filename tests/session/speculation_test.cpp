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
