// DRY, XTC, top-n-sigma and dynamic temperature against loops in double precision that read like their descriptions.
#include <algorithm>
#include <cmath>
#include <map>

#include "session/sampler_cases.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

using Probabilities = std::vector<std::pair<TokenId, double>>;

Probabilities softmax_of(const std::map<TokenId, double>& logits) {
  double highest = -INFINITY, total = 0;
  for (const auto& [id, logit] : logits) highest = std::max(highest, logit);
  for (const auto& [id, logit] : logits) total += std::exp(logit - highest);
  Probabilities p;
  for (const auto& [id, logit] : logits) p.emplace_back(id, std::exp(logit - highest) / total);
  return p;
}

std::map<TokenId, double> doubles_of(const std::vector<float>& logits) {
  std::map<TokenId, double> all;
  for (std::size_t i = 0; i < logits.size(); ++i) all[static_cast<TokenId>(i)] = static_cast<double>(logits[i]);
  return all;
}

void check_same(const Probabilities& found, const Probabilities& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].first == expected[i].first);
    CHECK(found[i].second == doctest::Approx(expected[i].second).epsilon(1e-12));  // sums in another order
  }
}

}  // namespace

TEST_CASE("top-n-sigma keeps what is within n standard deviations of the highest logit") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> logits = random_logits(300, seed, 3.0);
    const float n = 0.25f * static_cast<float>(seed + 1);
    double mean = 0, variance = 0;
    for (const float x : logits) mean += static_cast<double>(x) / 300;
    for (const float x : logits) variance += std::pow(static_cast<double>(x) - mean, 2) / 300;
    auto kept = doubles_of(logits);
    const double highest = static_cast<double>(*std::ranges::max_element(logits));
    std::erase_if(kept, [&](const auto& entry) { return entry.second < highest - static_cast<double>(n) * std::sqrt(variance); });
    Sampling options = plain();
    options.top_n_sigma = n;
    check_same(Sampler(options, 300).probabilities(logits), softmax_of(kept));
  }
}

TEST_CASE("XTC drops the probable tokens but the least of them, as often as it is told to") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> logits = random_logits(12, seed, 1.5);
    const Probabilities all = softmax_of(doubles_of(logits));
    const double threshold = 0.02 + 0.01 * static_cast<double>(seed);
    Probabilities above;
    for (const auto& entry : all) {
      if (entry.second >= static_cast<double>(static_cast<float>(threshold))) above.push_back(entry);
    }
    auto kept = doubles_of(logits);
    if (above.size() >= 2) {
      const TokenId least = std::ranges::min_element(above, {}, &std::pair<TokenId, double>::second)->first;
      for (const auto& [id, p] : above) {
        if (id != least) kept.erase(id);
      }
    }
    Sampling options = plain();
    options.xtc_threshold = static_cast<float>(threshold);
    options.xtc_probability = 1.0f;
    check_same(Sampler(options, 12).probabilities(logits), softmax_of(kept));
    // Now and then: both distributions, mixed; and that is what comes out.
    options.xtc_probability = 0.25f;
    options.seed = seed;
    std::map<TokenId, double> mixed;
    for (const auto& [id, p] : all) mixed[id] += 0.75 * p;
    for (const auto& [id, p] : softmax_of(kept)) mixed[id] += 0.25 * p;
    Sampler sampler(options, 12);
    check_same(sampler.probabilities(logits), {mixed.begin(), mixed.end()});
    std::map<TokenId, int> drawn;
    constexpr int draws = 4000;
    for (int i = 0; i < draws; ++i) ++drawn[sampler.sample(logits)];
    double chi = 0;
    for (const auto& [id, p] : mixed) chi += std::pow(drawn[id] - draws * p, 2) / (draws * p);
    CHECK(chi < 45);  // 11 degrees of freedom: once in 10^5
  }
}

TEST_CASE("dynamic temperature goes by the share of the greatest entropy") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> logits = random_logits(50, seed, 0.2 * static_cast<double>(seed + 1));
    Sampling options = plain();
    options.temperature = 0.9f;
    options.dynatemp_range = 0.5f;
    options.dynatemp_exponent = 1.5f;
    double entropy = 0;
    for (const auto& [id, p] : softmax_of(doubles_of(logits))) entropy -= p * std::log(p);
    const double t = static_cast<double>(0.9f);
    const double temperature = t - 0.5 + 2 * 0.5 * std::pow(entropy / std::log(50.0), 1.5);
    auto divided = doubles_of(logits);
    for (auto& [id, logit] : divided) logit /= temperature;
    check_same(Sampler(options, 50).probabilities(logits), softmax_of(divided));
  }
}

TEST_CASE("DRY lowers what would go on with a repetition, by its length") {
  Random random(5);
  for (int round = 0; round < 300; ++round) {
    const std::vector<float> logits = random_logits(6, static_cast<std::uint64_t>(round), 1.0);
    Sampling options = plain();
    options.dry_multiplier = 0.8f;
    options.dry_allowed_length = 1 + round % 4;
    options.dry_penalty_last_n = round % 3 == 0 ? -1 : 10 + round % 17;
    options.repeat_last_n = round % 2 == 0 ? 0 : 5;
    if (round % 5 == 0) options.dry_breakers = {5};
    Sampler sampler(options, 6);
    std::vector<TokenId> text;
    for (int i = 0; i < 60; ++i) {
      text.push_back(static_cast<TokenId>(random.uniform() * (round % 5 == 0 ? 6 : 3)));
      sampler.accept(text.back());
    }
    const std::size_t window = options.dry_penalty_last_n < 0 ? text.size() : static_cast<std::size_t>(options.dry_penalty_last_n);
    const std::vector<TokenId> t(text.end() - static_cast<std::ptrdiff_t>(std::min(window, text.size())), text.end());
    std::map<TokenId, std::size_t> longest;
    for (std::size_t j = 1; j < t.size(); ++j) {
      std::size_t length = 0;  // tokens in front of j that are those at the end, up to a breaker
      while (length < j && t[j - 1 - length] == t[t.size() - 1 - length] && std::ranges::find(options.dry_breakers, t[t.size() - 1 - length]) == options.dry_breakers.end()) ++length;
      if (length >= static_cast<std::size_t>(options.dry_allowed_length)) longest[t[j]] = std::max(longest[t[j]], length);
    }
    auto lowered = doubles_of(logits);
    for (const auto& [id, length] : longest) lowered[id] -= static_cast<double>(0.8f) * std::pow(1.75, static_cast<double>(length) - options.dry_allowed_length);
    check_same(sampler.probabilities(logits), softmax_of(lowered));
    // Saved and restored, it remembers as far back.
    const Sampler again = Sampler::restore(sampler.save(), options, 6);
    CHECK(again.probabilities(logits) == sampler.probabilities(logits));
  }
}

TEST_CASE("options of the newer stages are checked, and have llama.cpp's places") {
  const auto refused = [](auto&& change) {
    Sampling options;
    change(options);
    return error_of([&] { const Sampler s(options, 5); });
  };
  CHECK(refused([](Sampling& s) { s.xtc_probability = 2; }) == "sampling: xtc_probability is 2, expected 0 to 1");
  CHECK(refused([](Sampling& s) { s.dry_base = 0.5f; }) == "sampling: dry_base is 0.5, expected a finite number of at least 1");
  CHECK(refused([](Sampling& s) { s.dry_allowed_length = 0; }) == "sampling: dry_allowed_length is 0, expected at least 1");
  CHECK(refused([](Sampling& s) { s.dry_penalty_last_n = -2; }).starts_with("sampling: dry_penalty_last_n is -2"));
  CHECK(refused([](Sampling& s) { s.dynatemp_range = -1; }) == "sampling: dynatemp_range is -1, expected 0 or a finite number above");
  for (const char* name : {"dry", "top_n_sigma", "xtc"}) CHECK(std::ranges::count(Sampling{}.order, find_stage(name)) == 1);
}
