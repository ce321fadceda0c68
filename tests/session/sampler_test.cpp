// Choosing tokens: every stage against numbers from its formula, the order of stages, the draw, what is refused.
#include "bantam/session/sampler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "session/sampler_cases.hpp"

using bantam::Random;
using bantam::Sampler;
using bantam::SamplerStage;
using bantam::Sampling;
using bantam::TokenId;
using namespace bantam::test;
using Distribution = std::vector<std::pair<TokenId, double>>;

namespace {


// Two and four are equal on purpose. softmax: .0698 .5157 .1897 .0257 .1897 .0094, entropy 1.29607.
const std::vector<float> logits = {1.0f, 3.0f, 2.0f, 0.0f, 2.0f, -1.0f};

Distribution distribution(const Sampling& options, std::initializer_list<TokenId> history = {}) {
  Sampler sampler(options, static_cast<std::int32_t>(logits.size()));
  for (const TokenId id : history) sampler.accept(id);
  return sampler.probabilities(logits);
}

void check_equal(const Distribution& found, const Distribution& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].first == expected[i].first);
    // The expected numbers are written with fifteen places.
    CHECK(found[i].second == doctest::Approx(expected[i].second).epsilon(1e-12));
  }
}

std::vector<TokenId> tokens_of(const Distribution& distribution) {
  std::vector<TokenId> ids;
  for (const auto& [id, probability] : distribution) ids.push_back(id);
  return ids;
}

}  // namespace

TEST_CASE("greedy takes the lowest id of the highest logit, whatever the size of the vocabulary") {
  Random random(9);
  for (const std::int32_t vocab : {1, 2, 15, 16, 17, 1023, 1024, 1025, 2048, 5003}) {
    CAPTURE(vocab);
    for (int round = 0; round < 40; ++round) {
      std::vector<float> many(static_cast<std::size_t>(vocab));
      // Few values, so that many are equal; all below 0 in some rounds.
      for (float& logit : many) logit = static_cast<float>(std::floor(random.uniform() * 50)) - (round % 2 == 0 ? 0.0f : 100.0f);
      if (round % 3 == 0) many[static_cast<std::size_t>(random.uniform() * vocab)] = -std::numeric_limits<float>::infinity();
      const float highest = *std::ranges::max_element(many);
      if (highest == -std::numeric_limits<float>::infinity()) continue;
      Sampler sampler(Sampling{.temperature = 0}, vocab);
      CHECK(sampler.sample(many) == std::ranges::find(many, highest) - many.begin());
      many[static_cast<std::size_t>(random.uniform() * vocab)] = round % 4 == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
      CHECK_THROWS((void)sampler.sample(many));
    }
  }
}

TEST_CASE("with everything off the distribution is the softmax") {
  check_equal(distribution(plain()), {{0, 0.069789346884973},
                                      {1, 0.515677399240795},
                                      {2, 0.189707113457446},
                                      {3, 0.025674065931764},
                                      {4, 0.189707113457446},
                                      {5, 0.009444961027576}});
}

TEST_CASE("temperature divides the logits") {
  Sampling options = plain();
  options.temperature = 0.5f;
  check_equal(distribution(options), {{0, 0.014178381275316},
                                      {1, 0.774113388096815},
                                      {2, 0.104764854635336},
                                      {3, 0.001918835245732},
                                      {4, 0.104764854635336},
                                      {5, 0.000259686111465}});
}

TEST_CASE("top-k keeps k tokens, of equal ones the lower ids") {
  Sampling options = plain();
  options.top_k = 2;
  check_equal(distribution(options), {{1, 0.731058578630005}, {2, 0.268941421369995}});
  options.top_k = 3;
  check_equal(distribution(options),
              {{1, 0.576116884765829}, {2, 0.211941557617085}, {4, 0.211941557617085}});
  options.top_k = 6;
  CHECK(distribution(options).size() == 6);
  options.top_k = std::numeric_limits<int>::max();
  CHECK(distribution(options).size() == 6);
  options.top_k = 0;
  CHECK(distribution(options).size() == 6);
}

TEST_CASE("top-k agrees with sorting for any k, also among many equal logits") {
  constexpr std::int32_t vocab = 5000;
  std::vector<float> many = random_logits(vocab, 1, 2.0);
  // Rounded to quarters: about thirty distinct values.
  for (float& x : many) x = std::round(x * 4.0f) / 4.0f;
  std::vector<TokenId> sorted(vocab);
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](TokenId a, TokenId b) {
    return many[static_cast<std::size_t>(a)] > many[static_cast<std::size_t>(b)];
  });
  for (const int k : {1, 2, 40, 127, 128, 129, 256, 1000, 4999}) {
    CAPTURE(k);
    Sampling options = plain();
    options.top_k = k;
    std::vector<TokenId> expected(sorted.begin(), sorted.begin() + k);
    std::sort(expected.begin(), expected.end());
    CHECK(tokens_of(Sampler(options, vocab).probabilities(many)) == expected);
  }
}

TEST_CASE("top-p keeps the shortest prefix that reaches p, with the token that crosses it") {
  const auto kept = [](float p) {
    Sampling options = plain();
    options.top_p = p;
    return tokens_of(distribution(options));
  };
  CHECK(kept(0.0f) == std::vector<TokenId>{1});
  CHECK(kept(0.5f) == std::vector<TokenId>{1});
  CHECK(kept(0.6f) == std::vector<TokenId>{1, 2});
  CHECK(kept(0.75f) == std::vector<TokenId>{1, 2, 4});
  CHECK(kept(0.9f) == std::vector<TokenId>{0, 1, 2, 4});
  CHECK(kept(0.99f) == std::vector<TokenId>{0, 1, 2, 3, 4});
  CHECK(kept(1.0f).size() == 6);
}

TEST_CASE("top-p reaches p exactly with equal probabilities") {
  Sampling options = plain();
  const std::vector<float> equal(8, 0.5f);
  options.top_p = 0.5f;
  CHECK(tokens_of(Sampler(options, 8).probabilities(equal)) == std::vector<TokenId>{0, 1, 2, 3});
  options.top_p = 0.501f;
  CHECK(tokens_of(Sampler(options, 8).probabilities(equal)) == std::vector<TokenId>{0, 1, 2, 3, 4});
}

TEST_CASE("top-p agrees with sorting and adding") {
  constexpr std::int32_t vocab = 3000;
  for (const double spread : {0.1, 1.0, 4.0}) {
    const std::vector<float> many = random_logits(vocab, 9, spread);
    Distribution sorted = Sampler(plain(), vocab).probabilities(many);
    std::stable_sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) { return a.second > b.second; });
    for (const float p : {0.01f, 0.3f, 0.77f, 0.95f, 0.9999f}) {
      std::size_t count = 0;
      double sum = 0.0;
      while (sum < p) sum += sorted[count++].second;
      std::vector<TokenId> expected = tokens_of({sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count)});
      std::sort(expected.begin(), expected.end());
      Sampling options = plain();
      options.top_p = p;
      CHECK(tokens_of(Sampler(options, vocab).probabilities(many)) == expected);
    }
  }
}

TEST_CASE("top-p finds the cut among thousands of equal tokens and beside outliers") {
  std::vector<float> equal(2000, 0.25f);
  Sampling options = plain();
  options.top_p = 0.5f;
  const auto kept = tokens_of(Sampler(options, 2000).probabilities(equal));
  CHECK(kept.size() == 1000);
  CHECK(kept.back() == 999);
  equal[1500] = -1e30f;
  options.top_p = 0.9999f;
  CHECK(Sampler(options, 2000).probabilities(equal).size() == 1999);
}

TEST_CASE("typical sampling agrees with sorting and adding") {
  constexpr std::int32_t vocab = 3000;
  for (const double spread : {0.1, 1.0, 4.0}) {
    const std::vector<float> many = random_logits(vocab, 5, spread);
    Distribution sorted = Sampler(plain(), vocab).probabilities(many);
    double entropy = 0.0;
    for (const auto& [id, p] : sorted) entropy -= p * std::log(p);
    std::stable_sort(sorted.begin(), sorted.end(), [&](auto& a, auto& b) {
      return std::abs(-std::log(a.second) - entropy) < std::abs(-std::log(b.second) - entropy);
    });
    for (const float p : {0.01f, 0.3f, 0.77f, 0.95f}) {
      std::size_t count = 0;
      double sum = 0.0;
      while (sum <= p) sum += sorted[count++].second;
      std::vector<TokenId> expected = tokens_of({sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count)});
      std::sort(expected.begin(), expected.end());
      Sampling options = plain();
      options.typical_p = p;
      CHECK(tokens_of(Sampler(options, vocab).probabilities(many)) == expected);
    }
  }
}

TEST_CASE("min-p keeps what is at least that share of the most probable token") {
  Sampling options = plain();
  options.min_p = 0.2f;  // 3 + ln 0.2 = 1.39
  check_equal(distribution(options),
              {{1, 0.576116884765829}, {2, 0.211941557617085}, {4, 0.211941557617085}});
  options.min_p = 1.0f;
  check_equal(distribution(options), {{1, 1.0}});
}

TEST_CASE("typical sampling keeps the tokens whose surprise is nearest to the entropy") {
  const auto kept = [](float p) {
    Sampling options = plain();
    options.typical_p = p;
    return tokens_of(distribution(options));
  };
  // |surprise - entropy|: 1.366 0.634 0.366 2.366 0.366 3.366, so the order is 2 4 1 0 3 5: the best one is not first.
  CHECK(kept(0.0f) == std::vector<TokenId>{2});
  CHECK(kept(0.1f) == std::vector<TokenId>{2});
  CHECK(kept(0.3f) == std::vector<TokenId>{2, 4});
  CHECK(kept(0.5f) == std::vector<TokenId>{1, 2, 4});
  CHECK(kept(0.9f) == std::vector<TokenId>{0, 1, 2, 4});
  Sampling options = plain();
  options.typical_p = 0.3f;
  check_equal(distribution(options), {{2, 0.5}, {4, 0.5}});
}

TEST_CASE("typical sampling wants more than p, top-p at least p") {
  Sampling options = plain();
  options.typical_p = 0.5f;
  const std::vector<float> equal(8, 0.5f);
  CHECK(Sampler(options, 8).probabilities(equal).size() == 5);
}

TEST_CASE("penalties divide or multiply by the sign, then subtract") {
  Sampling options = plain();
  options.repeat_penalty = 2.0f;
  options.frequency_penalty = 0.25f;
  options.presence_penalty = 0.5f;
  // Token 1 seen twice: 3 / 2 - 2 * 0.25 - 0.5; token 3: 0 * 2 - 0.75; token 5: -1 * 2 - 0.75.
  check_equal(distribution(options, {1, 1, 3, 5}), {{0, 0.138114183301828},
                                                    {1, 0.083770486713729},
                                                    {2, 0.375433274721822},
                                                    {3, 0.024000646278796},
                                                    {4, 0.375433274721822},
                                                    {5, 0.003248134262003}});
}

TEST_CASE("penalties see the last tokens only") {
  Sampling options = plain();
  options.repeat_penalty = 2.0f;
  options.frequency_penalty = 0.25f;
  options.presence_penalty = 0.5f;
  options.repeat_last_n = 2;
  check_equal(distribution(options, {1, 1, 3, 5}), {{0, 0.071311867290262},
                                                    {1, 0.526927387927242},
                                                    {2, 0.193845753008601},
                                                    {3, 0.012392144393844},
                                                    {4, 0.193845753008601},
                                                    {5, 0.001677094371450}});
  options.repeat_last_n = 0;
  check_equal(distribution(options, {1, 1, 3, 5}), distribution(plain()));
  options.repeat_last_n = -1;
  const Distribution all = distribution(options, {1, 1, 3, 5});
  options.repeat_last_n = 4;
  check_equal(distribution(options, {0, 2, 1, 1, 3, 5}), all);
}

TEST_CASE("logit bias comes before everything and may forbid a token") {
  Sampling options = plain();
  options.logit_bias = {{0, 1.0f}, {1, -infinity}, {0, 0.5f}};
  check_equal(distribution(options), {{0, 0.430043954090398},
                                      {2, 0.260834843179879},
                                      {3, 0.035300157379726},
                                      {4, 0.260834843179879},
                                      {5, 0.012986202170118}});
  options.temperature = 0.0f;
  CHECK(tokens_of(distribution(options)) == std::vector<TokenId>{0});
  options.logit_bias = {{3, 3.5f}};
  CHECK(tokens_of(distribution(options)) == std::vector<TokenId>{3});
}

TEST_CASE("the stages work on what the stages before left") {
  Sampling options = {.temperature = 0.75f, .top_k = 4, .top_p = 0.95f, .min_p = 0.2f};
  // top-k and top-p leave 0 1 2 4, min-p drops 0.
  check_equal(distribution(options),
              {{1, 0.654795539482788}, {2, 0.172602230258606}, {4, 0.172602230258606}});
}

TEST_CASE("the order of temperature and truncation matters, and is the caller's") {
  Sampling options = plain();
  options.temperature = 2.0f;
  options.top_p = 0.7f;
  check_equal(distribution(options), {{1, 0.622459331201855}, {2, 0.377540668798145}});
  options.order = {SamplerStage::temperature, SamplerStage::top_p};
  check_equal(distribution(options),
              {{1, 0.451862761877606}, {2, 0.274068619061197}, {4, 0.274068619061197}});
}

TEST_CASE("a stage that the order leaves out is off") {
  Sampling options = {.temperature = 0.3f, .top_k = 1, .top_p = 0.1f, .min_p = 0.5f};
  options.order = {};
  check_equal(distribution(options), distribution(plain()));
}

TEST_CASE("greedy takes the first maximum, whatever the other options") {
  for (const float temperature : {0.0f, -0.0f}) {
    Sampling options = {.temperature = temperature, .typical_p = 1.0f};
    check_equal(distribution(options), {{1, 1.0}});
    Sampler sampler(options, 5);
    CHECK(sampler.sample(std::array{0.0f, 7.0f, 7.0f, 7.0f, 1.0f}) == 1);
    CHECK(sampler.sample(std::array{-3.0f, -3.0f, -3.0f, -3.0f, -3.0f}) == 0);
  }
}

TEST_CASE("greedy respects stages that can change which token is the best") {
  Sampling options = plain();
  options.temperature = 0.0f;
  options.repeat_penalty = 4.0f;
  check_equal(distribution(options, {1}), {{2, 1.0}});
  // Typical sampling comes before temperature and keeps 2 and 4 only.
  options = plain();
  options.temperature = 0.0f;
  options.typical_p = 0.3f;
  check_equal(distribution(options), {{2, 1.0}});
  // With one token left, a penalty on it changes nothing.
  options = plain();
  options.temperature = 0.0f;
  options.top_k = 1;
  options.repeat_penalty = 4.0f;
  options.order = {SamplerStage::top_k, SamplerStage::penalties};
  check_equal(distribution(options, {1}), {{1, 1.0}});
}

TEST_CASE("extreme logits and temperatures stay finite") {
  constexpr float most = std::numeric_limits<float>::max();
  Sampling options = plain();
  options.temperature = std::numeric_limits<float>::denorm_min();
  check_equal(Sampler(options, 3).probabilities(std::array{-most, most, 0.0f}), {{1, 1.0}});
  options.temperature = most;
  options.repeat_penalty = std::numeric_limits<float>::denorm_min();
  options.frequency_penalty = most;
  Sampler sampler(options, 3);
  sampler.accept(1);
  for (const auto& [id, probability] : sampler.probabilities(std::array{1.0f, most, -infinity})) {
    CHECK(std::isfinite(probability));
  }
}
