// Several texts behind one prompt: each is what a session alone would write with its seed.
#include "bantam/session/continuations.hpp"

#include "session/demo.hpp"
#include "support.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

const std::string prompt_text = "The old captain looked at";

GenerateOptions drawn(std::int64_t tokens, std::uint64_t seed) {
  GenerateOptions options{.max_tokens = tokens, .sampling = {.temperature = 1.0f, .seed = seed}};
  options.sampling.repeat_penalty = 1.2f;  // which sees the prompt
  return options;
}

}  // namespace

TEST_CASE("each continuation is what its seed gives alone") {
  GenerateOptions options = drawn(24, 7);
  options.stop = {" a"};
  for (const bool shares : {false, true}) {
    Session session = shares ? Session(Engine(demo(), {.context = 128})) : Session(demo(), {.context = 128});
    session.prefill("Once upon a time. ");
    const std::size_t before = session.tokens().size();
    std::vector<std::string> pieces(5);
    const auto all = continuations(session, prompt_text, 5, options, {}, [&](std::size_t i, std::string_view piece) {
      pieces[i] += piece;
      return true;
    });
    REQUIRE(all.size() == 5);
    CHECK(session.tokens().size() == before + demo().tokenizer().encode(prompt_text, {.add_special = false}).size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(i);
      Session alone(demo(), {.context = 128});
      alone.prefill("Once upon a time. ");
      GenerateOptions mine = options;
      mine.sampling.seed = 7 + i;
      TextRange range = alone.stream(prompt_text, mine);
      CHECK(all[i].text == range.text());
      CHECK(all[i].text == pieces[i]);
      CHECK(all[i].tokens == range.tokens());
      CHECK(all[i].finish == range.finish());
    }
    CHECK(all[0].text != all[1].text);
    // It goes on from the prompt, as if there had been none.
    Session fresh(demo(), {.context = 128});
    fresh.prefill("Once upon a time. ");
    fresh.prefill(prompt_text);
    CHECK(logits_of(session) == logits_of(fresh));
  }
}

TEST_CASE("continuations are stopped, and refused where a generation is") {
  Session session(demo(), {.context = 64});
  int calls = 0;
  const auto few = continuations(session, prompt_text, 2, drawn(40, 1), {}, [&](std::size_t, std::string_view) { return ++calls < 4; });
  for (const Continuation& c : few) {
    CHECK(c.finish == Finish::cancelled);
    CHECK(c.tokens.size() < 8);
  }
  const auto full = continuations(session, "", 2, drawn(-1, 1));
  for (const Continuation& c : full) CHECK((c.finish == Finish::length || c.finish == Finish::stop));

  Session empty(demo(), {.context = 64});
  CHECK(error_of([&] { (void)continuations(empty, "It", 0); }) == "continuations: expected 1 to 1024, found 0");
  CHECK(error_of([&] { (void)continuations(empty, "It", 2, {.max_tokens = -2}); }).starts_with("max_tokens: expected"));
  CHECK(error_of([&] { (void)continuations(empty, std::span<const TokenId>{}, 2); }).starts_with("prompt: expected"));
  CHECK(empty.tokens().empty());
}
