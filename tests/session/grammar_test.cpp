// Generation under a grammar.
#include <cmath>

#include "bantam/bantam.hpp"
#include "session/demo.hpp"
#include "support.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

const std::string schema_text = R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 1, "maximum": 120},
  "friends": {"type": "array", "items": {"enum": ["Tom", "Anna"]}, "maxItems": 3}}, "required": ["name", "age", "friends"]})";

GenerateOptions under(const Grammar& grammar, std::uint64_t seed) {
  return {.max_tokens = 200, .sampling = {.temperature = 1.2f, .seed = seed}, .grammar = TokenGrammar(grammar, demo().tokenizer())};
}

}  // namespace

TEST_CASE("what is generated is of the grammar, with guesses and without, and ends where nothing may follow") {
  const Grammar grammar = Grammar::from_json_schema(schema_text);
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    Session session(demo());
    TextRange range = session.stream("The boy said: ", under(grammar, seed));
    const std::string text = range.text();
    CHECK_MESSAGE(grammar.matches(text), text);
    CHECK(range.finish() == Finish::stop);
    GenerateOptions guessing = under(grammar, seed);
    guessing.speculation.lookup = 8;
    Session other(demo());
    CHECK(other.stream("The boy said: ", guessing).text() == text);
    // Cut in two and resumed; a fork goes its own way.
    Session cut(demo());
    GenerateOptions part = under(grammar, seed);
    part.max_tokens = 7;
    std::string joined = cut.stream("The boy said: ", part).text();
    Session fork = cut.fork();
    part.max_tokens = -1;
    CHECK(joined + fork.resume(part).text() == text);
    joined += cut.resume(part).text();
    CHECK(joined == text);
  }
}

TEST_CASE("what may come keeps the proportions that the model gives it") {
  const Grammar grammar = Grammar::from_gbnf("root ::= \" \"? (\"a\" | \"b\" | \"the\" | \"cat\") .*");
  const TokenGrammar tokens(grammar, demo().tokenizer());
  Session session(demo());
  session.prefill("The boy saw");
  std::vector<float> logits = logits_of(session);
  logits.resize(static_cast<std::size_t>(demo().tokenizer().vocab_size()));
  std::vector<float> masked = logits;
  GrammarMatcher matcher(tokens);
  matcher.apply(masked);
  Sampling whole{.temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f};
  double total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    GrammarMatcher copy = matcher;
    const bool allowed = copy.accept(static_cast<TokenId>(i));
    CHECK(allowed == std::isfinite(masked[i]));
    if (allowed) total += std::exp(static_cast<double>(logits[i]));
  }
  for (const auto& [id, p] : Sampler(whole, demo().tokenizer().vocab_size()).probabilities(masked)) {
    CHECK(p == doctest::Approx(std::exp(static_cast<double>(logits[static_cast<std::size_t>(id)])) / total).epsilon(1e-9));
  }
}

TEST_CASE("batches keep each generation to its own grammar") {
  const Grammar digits = Grammar::from_gbnf("root ::= [0-9]{6}"), word = Grammar::from_gbnf("root ::= [a-z]{6} \"!\"");
  const Engine engine(demo(), {});
  Session a(engine), b(engine), c(engine);
  std::vector<TextRange> ranges;
  ranges.push_back(a.stream("One", under(digits, 1)));
  ranges.push_back(b.stream("Two", under(word, 2)));
  ranges.push_back(c.stream("Three", {.max_tokens = 12}));
  std::vector<std::string> texts(3);
  std::size_t running = 3;
  while (running != 0) {
    running = advance(ranges);
    for (std::size_t i = 0; i < 3; ++i) texts[i] += ranges[i].piece();
  }
  CHECK(digits.matches(texts[0]));
  CHECK(word.matches(texts[1]));
}

TEST_CASE("a grammar of another vocabulary, and one that was not saved, are told of") {
  BANTAM_NEED_SHARED(path, "models/stories260k");
  const Grammar grammar = Grammar::json_object();
  Session session(demo());
  GenerateOptions options{.grammar = TokenGrammar(grammar, Tokenizer::from_folder(path))};
  CHECK(error_of([&] { (void)session.stream("It", options); }).starts_with("grammar: expected one of this model's vocabulary of "));
  (void)session.stream("It", {.max_tokens = 2}).text();
  CHECK(error_of([&] { (void)session.resume(under(grammar, 1)); }).starts_with("resume: expected a generation with a grammar"));
}
