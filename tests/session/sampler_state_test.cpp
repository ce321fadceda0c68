// The sampler over time: draws, random numbers in step, saving and restoring, what is refused.
#include "bantam/session/sampler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "session/sampler_cases.hpp"

using bantam::Random;
using bantam::Sampler;
using bantam::SamplerStage;
using bantam::Sampling;
using bantam::TokenId;
using namespace bantam::test;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("draws follow the probabilities") {
  Sampling options = {.temperature = 1.3f, .top_k = 5, .top_p = 1.0f, .min_p = 0.0f, .seed = 17};
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f, 0.0f, 2.0f, -1.0f};
  Sampler sampler(options, 6);
  constexpr int draws = 100000;
  std::array<int, 6> counts{};
  for (int i = 0; i < draws; ++i) ++counts[static_cast<std::size_t>(sampler.sample(logits))];
  CHECK(counts[5] == 0);
  double chi_square = 0.0;
  for (const auto& [id, probability] : sampler.probabilities(logits)) {
    const double expected = probability * draws;
    const double off = counts[static_cast<std::size_t>(id)] - expected;
    chi_square += off * off / expected;
  }
  // 4 degrees of freedom: above 18.5 in one seed of a thousand.
  CHECK(chi_square < 18.5);
}

TEST_CASE("the same seed gives the same tokens, another seed others") {
  constexpr std::int32_t vocab = 300;
  const auto draw = [](std::uint64_t seed) {
    Sampler sampler({.temperature = 1.5f, .seed = seed}, vocab);
    std::vector<TokenId> ids;
    for (std::uint64_t i = 0; i < 50; ++i) ids.push_back(sampler.sample(random_logits(vocab, i, 1.0)));
    return ids;
  };
  CHECK(draw(0) == draw(0));
  CHECK(draw(0) != draw(1));
}

TEST_CASE("a step takes one random number, also when there is no choice") {
  Sampling options = plain();
  options.seed = 4;
  Sampler sampler(options, 3);
  const std::array<float, 3> no_choice = {-infinity, 1.0f, -infinity};
  CHECK(sampler.sample(no_choice) == 1);
  CHECK(sampler.sample(no_choice) == 1);
  Random random(4);
  (void)random.next();
  (void)random.next();
  // Equal thirds: the token is where the third random number falls.
  const auto expected = static_cast<TokenId>(random.uniform() * 3.0);
  CHECK(sampler.sample(std::array{0.0f, 0.0f, 0.0f}) == expected);
}

TEST_CASE("a saved sampler goes on exactly where it stood") {
  constexpr std::int32_t vocab = 64;
  const Sampling options = {.temperature = 1.2f, .repeat_penalty = 1.4f, .frequency_penalty = 0.2f, .repeat_last_n = 9};
  Sampler sampler(options, vocab);
  const auto step = [&](Sampler& s, std::uint64_t i) {
    const TokenId id = s.sample(random_logits(vocab, i, 1.5));
    s.accept(id);
    return id;
  };
  for (std::uint64_t i = 0; i < 40; ++i) step(sampler, i);
  Sampling other_seed = options;
  other_seed.seed = 99;
  Sampler restored = Sampler::restore(sampler.save(), other_seed, vocab);
  CHECK(restored.save() == sampler.save());
  for (std::uint64_t i = 40; i < 80; ++i) CHECK(step(restored, i) == step(sampler, i));
}

TEST_CASE("states of the first version, without Mirostat, are read") {
  Sampler sampler({.repeat_last_n = -1}, 50);
  for (const TokenId id : {3, 49, 3}) sampler.accept(id);
  std::string old = sampler.save();
  old.replace(0, 8, "bsample1");
  old.erase(44, 8);
  CHECK(Sampler::restore(old, {.repeat_last_n = -1}, 50).save() == sampler.save());
}

TEST_CASE("damaged saved states are refused") {
  Sampler sampler({.repeat_last_n = -1}, 50);
  for (const TokenId id : {3, 49, 3}) sampler.accept(id);
  const std::string good = sampler.save();
  const auto refuse = [](const std::string& state, std::int32_t vocab = 50) {
    return bantam::test::error_of([&] { (void)Sampler::restore(state, {}, vocab); });
  };
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    // A state cut between two tokens is a state with fewer tokens.
    if (bytes >= 52 && bytes % 4 == 0) continue;
    CHECK_FALSE(refuse(good.substr(0, bytes)).empty());
  }
  CHECK(refuse(good + "x") == "sampler state: expected 52 bytes and 4 for each token, found 65");
  CHECK(refuse(good, 51) == "sampler state: expected a vocabulary of 51 tokens, found 50");
  std::string bad = good;
  bad[56] = 50;
  CHECK(refuse(bad) == "sampler state: token at byte 56 is 50, expected 0 to 49");
  bad = good;
  bad.replace(44, 8, 8, '\xff');
  CHECK(refuse(bad) == "sampler state: expected Mirostat's bound to be a finite number");
  bad = good;
  bad[0] = '\n';
  CHECK(refuse(bad) == "sampler state: expected it to begin with bsample2, found \\x0asample2");
  bad = good;
  std::fill(bad.begin() + 8, bad.begin() + 40, '\0');
  CHECK(refuse(bad) == "random state: expected a bit that is set, found all zeros");
}

TEST_CASE("logits that make no sense are refused, and the random numbers stay") {
  Sampler sampler(plain(), 3);
  const std::string before = sampler.save();
  const auto refuse = [&](std::vector<float> bad) {
    return bantam::test::error_of([&] { (void)sampler.sample(bad); });
  };
  CHECK(refuse({1.0f, 2.0f}) == "logits: expected 3 of them, found 2");
  CHECK(refuse({1.0f, 2.0f, not_a_number}) == "logits hold NaN at token 2");
  CHECK(refuse({1.0f, infinity, not_a_number}) == "logits hold +infinity at token 1");
  CHECK(refuse({-infinity, -infinity, -infinity}) == "logits leave no token: all 3 are minus infinity");
  CHECK(sampler.save() == before);
  CHECK(bantam::test::error_of([&] { sampler.accept(3); }) == "sampler: token is 3, expected 0 to 2");
  CHECK(bantam::test::error_of([&] { sampler.accept(-1); }) == "sampler: token is -1, expected 0 to 2");
}

TEST_CASE("options out of range are refused by name") {
  const auto refuse = [](const Sampling& options, std::int32_t vocab = 10) {
    return bantam::test::error_of([&] { Sampler sampler(options, vocab); });
  };
  CHECK(refuse({.temperature = not_a_number}) == "sampling: temperature is nan, expected 0 (greedy) or a finite number above");
  CHECK(refuse({.temperature = infinity}) == "sampling: temperature is inf, expected 0 (greedy) or a finite number above");
  CHECK(refuse({.top_p = 1.5f}) == "sampling: top_p is 1.5, expected 0 to 1");
  CHECK(refuse({.top_p = not_a_number}) == "sampling: top_p is nan, expected 0 to 1");
  CHECK(refuse({.min_p = -0.5f}) == "sampling: min_p is -0.5, expected 0 to 1");
  CHECK(refuse({.typical_p = 2.0f}) == "sampling: typical_p is 2, expected 0 to 1");
  CHECK(refuse({.repeat_penalty = 0.0f}) == "sampling: repeat_penalty is 0, expected a finite number above 0");
  CHECK(refuse({.repeat_penalty = infinity}) == "sampling: repeat_penalty is inf, expected a finite number above 0");
  CHECK(refuse({.frequency_penalty = not_a_number}) == "sampling: frequency_penalty is nan, expected a finite number");
  CHECK(refuse({.presence_penalty = -infinity}) == "sampling: presence_penalty is -inf, expected a finite number");
  CHECK(refuse({.repeat_last_n = -2}) ==
        "sampling: repeat_last_n is -2, expected -1 (all), 0 (off) or a number of tokens");
  CHECK(refuse({.logit_bias = {{10, 1.0f}}}) == "sampling: logit_bias names token 10, expected 0 to 9");
  CHECK(refuse({.logit_bias = {{-1, 1.0f}}}) == "sampling: logit_bias names token -1, expected 0 to 9");
  CHECK(refuse({.logit_bias = {{4, infinity}}}) ==
        "sampling: logit_bias of token 4 is inf, expected a finite number or minus infinity");
  CHECK(refuse({.order = {SamplerStage::top_k, SamplerStage::top_k}}) ==
        "sampling: order holds stage 1 twice, expected each at most once");
  CHECK(refuse({.order = {static_cast<SamplerStage>(9)}}) == "sampling: order holds stage 9, expected 0 to 8");
  CHECK(refuse({}, 0) == "sampling: vocab_size is 0, expected at least 1");
}
