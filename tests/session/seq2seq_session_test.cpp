// Sessions of models with an encoder before their decoder: the first tokens are what the encoder reads, and whatever a session does, it goes on as
// a fresh one that read the same.
#include "bantam/bantam.hpp"
#include "bantam/session/beam.hpp"
#include "bantam/session/continuations.hpp"
#include "bantam/session/scheduler.hpp"
#include "tiny_adapter.hpp"

namespace bantam::test {
namespace {

Model model_of(const TinyModel& tiny) {
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  return Model::load(folder / "hf");
}
Model some_model() {
  TinyModel tiny{.arch = &archs::t5_gated, .context = 400};
  tiny.make();
  return model_of(tiny);
}

std::vector<float> copy_of(std::span<const float> logits) { return {logits.begin(), logits.end()}; }

/// Of a session that reads the same source and nothing but the decoder's tokens behind its start.
std::vector<float> fresh_logits(const Model& model, std::span<const TokenId> source, std::span<const TokenId> tokens) {
  Session session(model, {.threads = 1});
  session.prefill(source);
  if (tokens.size() > 1) session.prefill(tokens.subspan(1));
  return copy_of(session.logits());
}
bool same(Session& session) { return copy_of(session.logits()) == fresh_logits(session.model(), session.source(), session.tokens()); }

GenerateOptions greedy(std::int64_t tokens) { return {.max_tokens = tokens, .sampling = {.temperature = 0}, .ignore_end = true}; }

}  // namespace

TEST_CASE("the first tokens of a session are the source, the next ones the decoder's") {
  const Model model = some_model();
  const std::vector<TokenId> source = some_tokens(100), tokens = some_tokens(80);
  Session session(model, {.threads = 2});
  session.prefill(source);
  CHECK(session.tokens() == std::vector<TokenId>{3});
  CHECK(std::ranges::equal(session.source(), source));
  session.prefill(std::span(tokens).first(50));
  CHECK(session.tokens().size() == 51);
  CHECK(same(session));
  for (const std::int64_t left : {40, 2, 1}) {
    session.truncate(left);
    CHECK(session.tokens().size() == static_cast<std::size_t>(left));
    CHECK(same(session));
    session.prefill(std::span(tokens).first(5));
    CHECK(same(session));
  }
  session.prefill(tokens);
  session.remove(10, 60);
  CHECK(same(session));
  session.clear();
  CHECK(session.source().empty());
  session.prefill(std::span(source).first(7));
  CHECK(same(session));
  CHECK(session.tokens().size() == 1);
  CHECK(session.kv_bytes() > 0);
}

TEST_CASE("forks and saved sessions have the source, and read it no more") {
  const Model model = some_model();
  const std::vector<TokenId> source = some_tokens(70);
  std::int64_t calls = 0;
  for (const char* kind : {"f32", "f16", "q8"}) {
    Session session(model, {.threads = 2, .kv = kind});
    session.prefill(source);
    session.prefill(some_tokens(3));
    Session other = session.fork();
    std::string saved;
    session.save_to([&](std::span<const std::byte> bytes) { saved.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); });
    Session restored = Session::restore(model, std::as_bytes(std::span(saved)), {.progress = [&](std::int64_t, std::int64_t total) {
      calls = std::max(calls, total);
      return true;
    }});
    session.prefill(some_tokens(5));
    other.prefill(some_tokens(5));
    restored.prefill(some_tokens(5));
    CHECK(calls <= 6);
    CHECK(std::ranges::equal(restored.source(), source));
    CHECK(copy_of(other.logits()) == copy_of(session.logits()));
    CHECK(copy_of(restored.logits()) == copy_of(session.logits()));
    // Saved before anything was read, too.
    saved.clear();
    Session empty(model, {.kv = kind});
    empty.save_to([&](std::span<const std::byte> bytes) { saved.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); });
    Session begun = Session::restore(model, std::as_bytes(std::span(saved)));
    begun.prefill(source);
    CHECK(begun.tokens().size() == 1);
    // Every byte counts.
    for (std::size_t cut = 0; cut < saved.size(); cut += 7) CHECK_THROWS_AS((void)Session::restore(model, std::as_bytes(std::span(saved).first(cut))), Error);
  }
}

TEST_CASE("texts come out the same alone, in batches, guessed, as continuations and after a reading that was stopped") {
  const Model model = some_model();
  const std::vector<TokenId> source = some_tokens(60), other = some_tokens(33);
  Session session(model, {.threads = 2});
  TextRange text = session.stream(source, greedy(20));
  const std::string expected = text.text();
  const std::vector<TokenId> tokens = text.tokens();
  CHECK(tokens.size() == 20);
  CHECK(text.stats().prompt_tokens == 60);
  CHECK(session.stream_whole(source, greedy(20)).text() == expected);
  // Its own source, again.
  CHECK(session.stream_whole(session.source(), greedy(20)).text() == expected);

  GenerateOptions guessing = greedy(20);
  guessing.speculation.lookup = 4;
  Session guesser(model, {.threads = 1});
  CHECK(guesser.stream(source, guessing).text() == expected);

  Engine engine(model, {.threads = 2});
  std::vector<Session> sessions;
  sessions.emplace_back(engine);
  sessions.emplace_back(engine);
  prefill(std::vector<Prompt>{{&sessions[0], source}, {&sessions[1], other}});
  std::vector<TextRange> ranges;
  for (Session& one : sessions) ranges.push_back(one.stream(std::span<const TokenId>{}, greedy(20)));
  while (advance(std::span(ranges)) > 0) {
  }
  CHECK(ranges[0].tokens() == tokens);

  Session several(model, {.threads = 2});
  for (const Continuation& c : continuations(several, source, 2, greedy(20))) CHECK(c.tokens == tokens);

  bool stops = true;
  Session stopped(model, {.threads = 2, .progress = [&](std::int64_t, std::int64_t) { return !stops; }});
  has(error_of([&] { stopped.prefill(source); }), "cancelled");
  CHECK(stopped.tokens().empty());
  CHECK(stopped.source().empty());
  stops = false;
  CHECK(stopped.stream(source, greedy(20)).text() == expected);
}

TEST_CASE("beams of a decoder are the most probable answers") {
  const Model model = some_model();
  const std::vector<TokenId> source = some_tokens(20);
  Session session(model, {.threads = 1, .kv = "f32"});
  const std::vector<Beam> beams = beam_search(session, source, {.beams = 3, .results = 3, .max_tokens = 4});
  REQUIRE(beams.size() == 3);
  for (const Beam& beam : beams) {
    Session scored(model, {.threads = 1, .kv = "f32"});
    scored.prefill(source);
    double sum = 0;
    for (std::size_t i = 0; i < 4 && beam.finish == Finish::length; ++i) {
      const std::span<const float> logits = scored.logits().first(static_cast<std::size_t>(model.tokenizer().vocab_size()));
      double total = 0;
      for (const float x : logits) total += std::exp(static_cast<double>(x));
      sum += static_cast<double>(logits[static_cast<std::size_t>(beam.tokens[i])]) - std::log(total);
      scored.prefill(std::span(beam.tokens).subspan(i, 1));
    }
    if (beam.finish == Finish::length) CHECK(beam.log_probability == doctest::Approx(sum).epsilon(1e-5));
  }
}

TEST_CASE("adapters of an encoder read the source again") {
  TinyModel tiny{.arch = &archs::t5, .context = 200};
  tiny.make();
  TinyAdapter made{.model = tiny};
  made.make(3);
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  made.write_folder(folder / "peft");
  const Model model = Model::load(folder / "hf");
  const std::vector<ScaledAdapter> adapters{{Adapter::load(folder / "peft", model.config()), 0.5F}};
  const std::vector<TokenId> source = some_tokens(30);
  Session session(model, {.threads = 2}), adapted(model, {.threads = 2, .adapters = adapters});
  session.prefill(source);
  const std::vector<float> plain = copy_of(session.logits());
  adapted.prefill(source);
  session.set_adapters(adapters);
  CHECK(copy_of(session.logits()) == copy_of(adapted.logits()));
  CHECK(copy_of(session.logits()) != plain);
  session.set_adapters({});
  CHECK(copy_of(session.logits()) == plain);
}

TEST_CASE("what a decoder behind an encoder is not for is refused in one line") {
  const Model model = some_model();
  Session session(model, {.threads = 1});
  const std::vector<TokenId> tokens = some_tokens(4);
  const auto nothing = [](std::int64_t, std::span<const float>) {};
  has(error_of([&] { session.score(tokens, nothing); }), "session: expected a prompt, which the encoder of a model of type t5 reads before the decoder's tokens, found none");
  has(error_of([&] { (void)perplexity(model, "abc abc abc", {.context = 8}); }), "perplexity: expected a model that goes on with a text, found one of type t5");
  has(error_of([&] { (void)embed(session, tokens); }), "embed: expected a model of one text, found one of type t5");
  Engine engine(model);
  has(error_of([&] { (void)embed(engine, std::vector<std::vector<TokenId>>{tokens}); }), "embed: expected a model of one text");
  has(error_of([&] { Scheduler scheduler(engine); }), "scheduler: expected a model that goes on with a text, found one of type t5");
  Session draft(model, {.threads = 1});
  GenerateOptions drafting = greedy(4);
  drafting.speculation.draft = &draft;
  has(error_of([&] { (void)session.stream(tokens, drafting); }), "draft: expected a model that goes on with a text, found one of type t5");
  has(error_of([&] { session.prefill(some_tokens(401)); }), "context: expected at most 400 tokens, 0 are held and 401 more were given");
  CHECK(session.tokens().empty());

  nn::SequenceState state = engine.new_state();
  const auto sink = [](std::int64_t, std::int64_t, std::span<const float>) {};
  const auto refused = [&](const Engine::Sequence& sequence) { return error_of([&] { engine.run({&sequence, 1}, sink, [](std::int64_t) { return true; }); }); };
  has(refused({.tokens = tokens, .state = &state}), "engine: expected a source, which the encoder reads before the decoder's first token, found none");
  has(refused({.tokens = tokens, .state = &state, .source = some_tokens(401)}), "context: expected a source of at most 400 tokens, found 401");
  const std::vector<TokenId> odd{99};
  has(refused({.tokens = tokens, .state = &state, .source = odd}), "token id: expected 0 to 36, found 99");
  const Engine::Sequence right{.tokens = tokens, .state = &state, .source = tokens};
  engine.run({&right, 1}, sink, [](std::int64_t) { return true; });
  has(refused({.tokens = tokens, .state = &state, .source = tokens}), "engine: expected the source before the decoder's first token, found 4 tokens read before");
  has(error_of([&] { engine.remove(state, 0, 1); }), "remove: expected a model of one text");
  TinyModel llama;
  llama.make();
  Engine other(model_of(llama));
  nn::SequenceState plain = other.new_state();
  const Engine::Sequence both{.tokens = tokens, .state = &plain, .source = tokens};
  has(error_of([&] { other.run({&both, 1}, sink, [](std::int64_t) { return true; }); }), "engine: expected a source in models with an encoder before a decoder alone, found one of type llama");
}

}  // namespace bantam::test
