// Mirostat: the cut and the bound against the paper's formulas (arXiv:2007.14966), and the surprise that comes out.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "bantam/session/sampler.hpp"
#include "limits.hpp"
#include "support.hpp"

using bantam::Mirostat;
using bantam::Random;
using bantam::Sampler;
using bantam::Sampling;
using bantam::TokenId;

namespace {

/// Logits by Zipf's law, p(i) ~ (i + 1)^-s, in an order of their own.
std::vector<float> zipf(std::size_t count, double s) {
  std::vector<float> logits(count);
  for (std::size_t i = 0; i < count; ++i) logits[(i * 7919 + 3) % count] = static_cast<float>(-s * std::log(static_cast<double>(i + 1)));
  return logits;
}

std::vector<double> softmax(const std::vector<float>& logits) {
  std::vector<double> p(logits.begin(), logits.end());
  for (double& x : p) x = std::exp(x);
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= total;
  return p;
}

/// Algorithm 1 as the paper writes it: probabilities sorted, s by least squares over m - 1 ratios, k by equation 30.
std::size_t paper_k(const std::vector<float>& logits, double mu) {
  std::vector<double> p = softmax(logits);
  std::sort(p.rbegin(), p.rend());
  const double n = static_cast<double>(p.size());
  double products = 0, squares = 0;
  for (std::size_t i = 0; i + 1 < std::min<std::size_t>(100, p.size()); ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += t * std::log(p[i] / p[i + 1]);
    squares += t * t;
  }
  const double s = products / squares;
  const double epsilon = s - 1;
  const double k = std::pow(epsilon * std::pow(2, mu) / (1 - std::pow(n, -epsilon)), 1 / s);
  return std::clamp<std::size_t>(static_cast<std::size_t>(k), 1, p.size());
}

/// How many tokens have at most `mu` bits of surprise; one at least.
std::size_t paper_v2(const std::vector<float>& logits, double mu) {
  const std::vector<double> p = softmax(logits);
  const auto kept = std::count_if(p.begin(), p.end(), [&](double x) { return -std::log2(x) <= mu; });
  return std::max<std::size_t>(static_cast<std::size_t>(kept), 1);
}

}  // namespace

TEST_CASE("mirostat cuts where the paper's formulas do, and its bound follows the surprise of the tokens drawn") {
  constexpr std::int32_t vocab = 997;
  for (const Mirostat version : {Mirostat::v1, Mirostat::v2}) {
    CAPTURE(static_cast<int>(version));
    const Sampling options = {.temperature = 1.0f, .mirostat = version, .mirostat_tau = 4.0f, .mirostat_eta = 0.3f};
    Sampler sampler(options, vocab);
    double mu = 8;  // twice the target
    for (int step = 0; step < 50; ++step) {
      CAPTURE(step);
      const std::vector<float> logits = zipf(vocab, 0.7 + 0.02 * step);
      const auto kept = sampler.probabilities(logits);
      CHECK(kept.size() == (version == Mirostat::v1 ? paper_k(logits, mu) : paper_v2(logits, mu)));
      const TokenId id = sampler.sample(logits);
      CHECK(std::any_of(kept.begin(), kept.end(), [&](const auto& one) { return one.first == id; }));
      mu -= 0.3 * (-std::log2(softmax(logits)[static_cast<std::size_t>(id)]) - 4.0);
    }
  }
}

TEST_CASE("the mean surprise of mirostat's tokens is its target") {
  if (bantam::test::skips_figures()) return;
  constexpr std::int32_t vocab = 4096;
  Random random(1);
  for (const Mirostat version : {Mirostat::v1, Mirostat::v2}) {
    for (const float target : {5.0f, 6.0f}) {
      CAPTURE(target);
      Sampler sampler({.temperature = 1.0f, .mirostat = version, .mirostat_tau = target, .seed = 5}, vocab);
      constexpr int count = 4000;
      double sum = 0;
      for (int i = 0; i < count; ++i) {
        const std::vector<float> logits = zipf(vocab, 0.8 + 0.4 * random.uniform());
        sum += -std::log2(softmax(logits)[static_cast<std::size_t>(sampler.sample(logits))]);
      }
      // Both targets lie between what greedy choices (2 to 5 bits) and the whole distribution have. The bound moved by eta times
      // the sum of all errors and stays within the 12 bits of the vocabulary.
      CHECK(std::abs(sum / count - static_cast<double>(target)) < 2 * 12 / (0.1 * count));
    }
  }
}

TEST_CASE("mirostat takes the place of the truncations, and leaves greedy choices") {
  const std::vector<float> logits = zipf(500, 1.1);
  const Sampling plain = {.temperature = 0.7f, .mirostat = Mirostat::v2};
  Sampling cut = plain;
  cut.top_k = 1;
  cut.top_p = 0.1f;
  cut.min_p = 0.9f;
  cut.typical_p = 0.2f;
  CHECK(Sampler(cut, 500).probabilities(logits) == Sampler(plain, 500).probabilities(logits));
  for (const Mirostat version : {Mirostat::v1, Mirostat::v2}) {
    Sampler greedy({.temperature = 0.0f, .mirostat = version}, 500);
    CHECK(greedy.sample(logits) == 3);
    CHECK(Sampler({.mirostat = version}, 1).sample(std::vector<float>{0.5f}) == 0);
    // Equal logits: Zipf's s is 0, and every token is as surprising as any other.
    const std::vector<float> flat(64, 1.0f);
    CHECK(Sampler({.temperature = 1.0f, .mirostat = version, .mirostat_tau = 5.0f}, 64).probabilities(flat).size() == 64);
  }
}

TEST_CASE("a restored sampler goes on with mirostat's bound") {
  const Sampling options = {.temperature = 1.0f, .mirostat = Mirostat::v1, .mirostat_tau = 3.0f};
  Sampler sampler(options, 300);
  const std::vector<float> logits = zipf(300, 0.9);
  for (int i = 0; i < 20; ++i) sampler.accept(sampler.sample(logits));
  // By way of other options, as sessions are restored.
  Sampler restored = Sampler::restore(Sampler::restore(sampler.save(), {.repeat_last_n = -1}, 300).save(), options, 300);
  CHECK(restored.probabilities(logits) == sampler.probabilities(logits));
  for (int i = 0; i < 20; ++i) CHECK(restored.sample(logits) == sampler.sample(logits));
}

TEST_CASE("mirostat's options out of range are refused by name") {
  const auto refuse = [](const Sampling& options) { return bantam::test::error_of([&] { Sampler sampler(options, 10); }); };
  CHECK(refuse({.mirostat = static_cast<Mirostat>(3)}) == "sampling: mirostat is 3, expected 0 (off), 1 or 2");
  CHECK(refuse({.mirostat_tau = 0.0f}) == "sampling: mirostat_tau is 0, expected a finite number above 0");
  CHECK(refuse({.mirostat_eta = -0.1f}) == "sampling: mirostat_eta is -0.1, expected a finite number above 0");
}
