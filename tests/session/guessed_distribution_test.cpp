// Sampled text with guesses has the distribution of the model.
#include <map>

#include "bantam/session/session.hpp"
#include "limits.hpp"
#include "support.hpp"

using namespace bantam;

TEST_CASE("a token drawn while guesses are checked has the model's distribution: a chi-square test") {
  if (test::skips_figures()) return;
  const Model model = Model::load(BANTAM_SOURCE_DIR "/models/books4m");
  // What repeats brings guesses; the first token of a generation is drawn without any, the second with.
  const std::string text = "to be, or not to be, or not to be, or not to be, or";
  const Sampling sampling{.temperature = 1.0f, .top_k = 6, .top_p = 1, .min_p = 0};
  const auto vocab = static_cast<std::int32_t>(model.config().vocab);
  Session base(model, {.threads = 1});
  base.prefill(text);
  const TokenId first = Sampler({.temperature = 0}, vocab).sample(base.logits());
  Session after = base.fork();
  after.prefill(std::vector{first});
  std::map<TokenId, double> expected;
  for (const auto& [id, p] : Sampler(sampling, vocab).probabilities(after.logits())) expected[id] = p;
  REQUIRE(expected.size() == 6);

  constexpr std::uint64_t seeds = 3000;
  std::map<TokenId, int> seen;
  int drawn = 0;
  std::int64_t guesses = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Session session = base.fork();
    Sampling one = sampling;
    one.seed = seed;
    TextRange range = session.stream("", {.max_tokens = 4, .sampling = one, .ignore_end = true, .speculation = {.lookup = 4}});
    (void)range.text();
    if (range.tokens()[0] != first) continue;
    ++seen[range.tokens()[1]];
    ++drawn;
    guesses += range.stats().guessed_tokens;
  }
  REQUIRE(drawn > 200);
  CHECK(guesses > drawn / 10);  // how many pay is measured
  double statistic = 0;
  for (const auto& [id, p] : expected) {
    const double wanted = p * drawn;
    statistic += (seen[id] - wanted) * (seen[id] - wanted) / wanted;
  }
  CHECK(seen.size() == expected.size());
  CAPTURE(statistic);
  CHECK(statistic < 20.5);  // the quantile 0.999 of chi-square with 5 degrees of freedom; seeds are fixed
}
