// Callers' own rules for the next token.
#include "bantam/bantam.hpp"
#include "session/demo.hpp"
#include "support.hpp"

#include <limits>

using namespace bantam;
using namespace bantam::test;

namespace {

// Repeats itself, so that lookup finds guesses.
const std::string repeating_prompt = "The cat sat on the mat. The dog sat on the log. The cat sat on the mat. The dog sat on";

GenerateOptions options_of(int lookup) {
  return {.max_tokens = 40, .sampling = {.temperature = 0.7f, .seed = 3}, .ignore_end = true, .speculation = {.lookup = lookup}};
}

}  // namespace

TEST_CASE("a processor sees every token once and decides what can come") {
  for (const int lookup : {0, 8}) {
    CAPTURE(lookup);
    Session plain(demo());
    TextRange expected = plain.stream(repeating_prompt, options_of(lookup));
    const std::string text = expected.text();

    // Looking changes nothing.
    Session session(demo());
    GenerateOptions options = options_of(lookup);
    std::size_t calls = 0, first = 0;
    options.process = [&](std::span<const TokenId> tokens, std::span<float> logits) {
      if (calls == 0) first = tokens.size();
      CHECK(tokens.size() == first + calls++);
      CHECK(static_cast<std::int64_t>(logits.size()) == demo().config().vocab);
      return true;
    };
    CHECK(session.stream(repeating_prompt, options).text() == text);
    CHECK(calls == 40);

    // One token is left.
    const TokenId only = demo().tokenizer().encode(" sea", {.add_special = false}).front();
    options.process = [&](std::span<const TokenId>, std::span<float> logits) {
      for (std::size_t id = 0; id < logits.size(); ++id) {
        if (static_cast<TokenId>(id) != only) logits[id] = -std::numeric_limits<float>::infinity();
      }
      return true;
    };
    Session bound(demo());
    TextRange range = bound.stream(repeating_prompt, options);
    (void)range.text();
    CHECK(range.tokens() == std::vector<TokenId>(40, only));

    // False ends it, without a token.
    options.process = [&](std::span<const TokenId> tokens, std::span<float>) { return tokens.size() < first + 7; };
    Session stopped(demo());
    TextRange seven = stopped.stream(repeating_prompt, options);
    (void)seven.text();
    CHECK(seven.tokens() == std::vector<TokenId>(expected.tokens().begin(), expected.tokens().begin() + 7));
    CHECK(seven.finish() == Finish::stop);
    CHECK(stopped.tokens().size() == first + 7);
  }
}

TEST_CASE("what a processor throws comes out, and the session goes on from there") {
  for (const int lookup : {0, 8}) {
    CAPTURE(lookup);
    Session plain(demo());
    TextRange expected = plain.stream(repeating_prompt, options_of(lookup));
    (void)expected.text();
    for (int fails_at = 0; fails_at < 12; ++fails_at) {
      CAPTURE(fails_at);
      Session session(demo());
      GenerateOptions options = options_of(lookup);
      int calls = 0;
      options.process = [&](std::span<const TokenId>, std::span<float>) {
        if (calls++ == fails_at) fail(Errc::invalid_argument, "processor: no");
        return true;
      };
      TextRange range = session.stream(repeating_prompt, options);
      CHECK(test::error_of([&] { (void)range.text(); }) == "processor: no");
      std::vector<TokenId> tokens = range.tokens();
      CHECK(static_cast<int>(tokens.size()) == fails_at);
      options.process = {};
      options.max_tokens -= fails_at;
      TextRange rest = session.resume(options);
      (void)rest.text();
      tokens.insert(tokens.end(), rest.tokens().begin(), rest.tokens().end());
      CHECK(tokens == expected.tokens());
    }
  }
}
