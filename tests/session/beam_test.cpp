// Beam search: one beam is greedy, what it says of probabilities is the model's, and wide beams find the best text there is.
#include "bantam/session/beam.hpp"

#include <algorithm>
#include <cmath>

#include "session/demo.hpp"
#include "support.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

/// The log probability of tokens behind a text, among those that the grammar lets come.
double log_probability_of(const std::string& text, const std::vector<TokenId>& tokens, const TokenGrammar* grammar) {
  Session session(demo());
  session.prefill(text);
  std::optional<GrammarMatcher> matcher;
  if (grammar != nullptr) matcher.emplace(*grammar);
  double sum = 0;
  for (const TokenId id : tokens) {
    std::vector<float> logits = logits_of(session);
    if (matcher) {
      matcher->apply(logits);
      REQUIRE(matcher->accept(id));
    }
    double total = 0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit));
    sum += static_cast<double>(logits[static_cast<std::size_t>(id)]) - std::log(total);
    session.prefill(std::span(&id, 1));
  }
  return sum;
}

}  // namespace

TEST_CASE("one beam is greedy, and several say what the model says of their texts") {
  const std::string prompt_text = "The old captain looked at";
  Session greedy(demo());
  TextRange expected = greedy.stream(prompt_text, {.max_tokens = 12, .sampling = {.temperature = 0}});
  const std::string text = expected.text();
  Session one(demo());
  const auto single = beam_search(one, prompt_text, {.beams = 1, .max_tokens = 12});
  REQUIRE(single.size() == 1);
  CHECK(single[0].text == text);
  CHECK(one.tokens() == demo().tokenizer().encode(prompt_text));
  Session many(demo());
  const auto best = beam_search(many, prompt_text, {.beams = 5, .results = 5, .max_tokens = 6});
  REQUIRE(best.size() == 5);
  for (const Beam& beam : best) {
    if (beam.finish != Finish::length) continue;
    CHECK(beam.tokens.size() == 6);
    CHECK(beam.log_probability == doctest::Approx(log_probability_of(prompt_text, beam.tokens, nullptr)).epsilon(1e-6));
    CHECK(beam.score == doctest::Approx(beam.log_probability / 6));
  }
  CHECK(std::ranges::is_sorted(best, std::greater<>{}, &Beam::score));
}

TEST_CASE("beams as many as texts find the most probable of a grammar's") {
  // All texts of three letters of two: eight, and whatever their tokens are, few beginnings.
  const TokenGrammar grammar(Grammar::from_gbnf("root ::= [ab]{3}"), demo().tokenizer());
  const auto found = [&] {
    Session session(demo());
    return beam_search(session, "The boy", {.beams = 64, .results = 64, .max_tokens = 8, .length_penalty = 0, .grammar = grammar});
  }();
  REQUIRE_FALSE(found.empty());
  double total = 0;
  for (const Beam& beam : found) {
    CHECK(beam.text.size() == 3);
    CHECK(beam.log_probability == doctest::Approx(log_probability_of("The boy", beam.tokens, &grammar)).epsilon(1e-6));
    total += std::exp(beam.log_probability);
  }
  // Nothing was missed: the probabilities of all ways to write all texts add up to 1.
  CHECK(total == doctest::Approx(1).epsilon(1e-5));
}

TEST_CASE("beams out of range are refused") {
  Session session(demo());
  CHECK(error_of([&] { (void)beam_search(session, "It", {.beams = 0}); }) == "beams: expected 1 to 1024, found 0");
  CHECK(error_of([&] { (void)beam_search(session, "It", {.beams = 2, .results = 3}); }) == "results: expected 1 to 2 (the beams), found 3");
}
