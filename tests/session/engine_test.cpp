// Sessions on one engine, and the engine alone: the same bits as by themselves.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <thread>

#include "bantam/bantam.hpp"
#include "session/demo.hpp"
#include "support.hpp"
#include "tiny_model.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

const std::vector<std::string> prompts = {"The old captain looked at the sea, and said", "Once", "It was a dark night, and the rain"};

/// Of another seed for each session.
GenerateOptions options_of(std::size_t i, std::int64_t tokens) {
  return {.max_tokens = tokens, .sampling = {.temperature = 0.9f, .repeat_penalty = 1.1f, .seed = i}, .ignore_end = true};
}

std::vector<std::byte> saved(const Session& session) {
  std::vector<std::byte> bytes;
  session.save_to([&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  return bytes;
}

/// Reads tokens, from their beginning or where the state stands, and returns the logits after the last.
std::vector<float> read(Engine& engine, nn::SequenceState& state, std::span<const TokenId> tokens) {
  std::vector<float> logits;
  const Engine::Sequence part{tokens, &state, static_cast<std::int64_t>(tokens.size()) - 1};
  engine.run({&part, 1}, [&](std::int64_t, std::int64_t, std::span<const float> row) { logits.assign(row.begin(), row.end()); },
             [](std::int64_t) { return true; });
  return logits;
}

}  // namespace

TEST_CASE("sessions on one engine have the bits that they have alone, with contexts and kinds of their own") {
  const std::vector<SessionOptions> kinds = {{.context = 300, .kv = "f32"}, {.context = 64, .kv = "q8"}, {}};
  const Engine engine(demo(), {.context = 1024, .threads = 2});
  std::vector<Session> shared, alone;
  std::vector<std::vector<TokenId>> tokens;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    shared.emplace_back(engine, kinds[i]);
    alone.emplace_back(demo(), SessionOptions{.context = shared[i].context(), .threads = 1, .kv = kinds[i].kv});
    tokens.push_back(demo().tokenizer().encode(prompts[i]));
  }
  CHECK(shared[2].context() == 1024);
  std::vector<Prompt> together;
  for (std::size_t i = 0; i < shared.size(); ++i) together.push_back({&shared[i], tokens[i]});
  prefill(together);
  std::vector<TextRange> ranges;
  for (std::size_t i = 0; i < shared.size(); ++i) ranges.push_back(shared[i].stream("", options_of(i, 80)));
  std::vector<std::string> texts(ranges.size());
  for (bool running = true; running;) {
    running = advance(ranges) > 0;
    for (std::size_t i = 0; i < ranges.size(); ++i) texts[i] += ranges[i].piece();
  }
  for (std::size_t i = 0; i < shared.size(); ++i) {
    CAPTURE(i);
    CHECK(texts[i] == alone[i].stream(prompts[i], options_of(i, 80)).text());
    CHECK(shared[i].tokens() == alone[i].tokens());
    CHECK(saved(shared[i]) == saved(alone[i]));
    CHECK(logits_of(shared[i]) == logits_of(alone[i]));
  }
  CHECK(shared[1].tokens().size() == 64);  // the end of its context, not of the engine's
  CHECK(engine.threads() == 2);
  CHECK(shared[0].threads() == 2);
}

TEST_CASE("generations that all threads choose for are those of sessions alone, and what one throws comes out") {
  constexpr std::size_t count = 20;
  REQUIRE(static_cast<std::int64_t>(count) * demo().config().vocab >= 1 << 16);  // else one thread is enough
  const Engine engine(demo(), {.context = 256, .threads = 2});
  std::vector<Session> sessions;
  for (std::size_t i = 0; i < count; ++i) sessions.emplace_back(engine);
  std::vector<TextRange> ranges;
  for (std::size_t i = 0; i < count; ++i) ranges.push_back(sessions[i].stream(prompts[i % prompts.size()], options_of(i, 12)));
  while (advance(ranges) > 0) {}
  for (std::size_t i = 0; i < count; ++i) {
    CAPTURE(i);
    Session alone(engine);
    TextRange range = alone.stream(prompts[i % prompts.size()], options_of(i, 12));
    (void)range.text();
    CHECK(ranges[i].tokens() == range.tokens());
  }
  ranges.clear();
  for (std::size_t i = 0; i < count; ++i) {
    GenerateOptions options = options_of(i, 12);
    if (i == 7) options.process = [](std::span<const TokenId>, std::span<float>) -> bool { throw Error(Errc::corrupt, "this one is broken"); };
    ranges.push_back(sessions[i].stream("", options));
  }
  CHECK(error_of([&] { (void)advance(ranges); }) == "this one is broken");
}

TEST_CASE("sessions on one engine are forked, cut, saved and restored as others are") {
  const Engine engine(demo(), {.context = 512, .threads = 2});
  const SessionOptions options{.context = 512, .threads = 1};
  Session shared(engine), alone(demo(), options);
  const auto same = [&](Session& a, Session& b) {
    CHECK(a.tokens() == b.tokens());
    CHECK(logits_of(a) == logits_of(b));
  };
  for (Session* s : {&shared, &alone}) (void)s->stream(prompts[0], options_of(0, 70)).text();
  Session shared_fork = shared.fork(), alone_fork = alone.fork();
  same(shared_fork, alone_fork);
  for (Session* s : {&shared_fork, &alone_fork}) s->truncate(5), s->prefill(" on");
  same(shared_fork, alone_fork);
  for (Session* s : {&shared_fork, &alone_fork}) s->remove(1, 3);
  same(shared_fork, alone_fork);
  same(shared, alone);  // not reached by what the forks did

  const test::TemporaryFolder folder;
  shared.save(folder / "session");
  Session from_file = Session::restore(engine, folder / "session", {.context = 200});
  Session from_memory = Session::restore(engine, saved(shared));
  Session on_its_own = Session::restore(demo(), folder / "session", options);
  CHECK(from_file.context() == 200);
  const std::string rest = alone.resume(options_of(0, 40)).text();
  for (Session* s : {&from_file, &from_memory, &on_its_own}) CHECK(s->resume(options_of(0, 40)).text() == rest);
  CHECK_FALSE(test::error_of([&] { (void)Session::restore(engine, folder / "session", {.context = 20}); }).empty());

  // A draft on the engine of the session that it guesses for.
  Session draft(engine);
  GenerateOptions guessing = options_of(0, 40);
  guessing.speculation.draft = &draft;
  Session guessed = Session::restore(engine, folder / "session");
  CHECK(guessed.resume(guessing).text() == rest);
}

TEST_CASE("hidden states and logits of tokens are the same when others wait in front of them") {
  const std::vector<TokenId> tokens = demo().tokenizer().encode(prompts[2], {.add_special = false});
  const auto rows_of = [&](Session& session, bool states) {
    std::vector<std::vector<float>> rows(tokens.size());
    const auto keep = [&](std::int64_t i, std::span<const float> row) { rows.at(static_cast<std::size_t>(i)).assign(row.begin(), row.end()); };
    if (states) session.states(tokens, keep);
    if (!states) session.score(tokens, keep);
    return rows;
  };
  for (const bool states : {false, true}) {
    Session waits(demo()), read(demo());
    for (Session* s : {&waits, &read}) (void)s->stream(prompts[0], options_of(0, 5)).text();  // the last token is not read yet
    (void)read.logits();
    CHECK(rows_of(waits, states) == rows_of(read, states));
    CHECK(logits_of(waits) == logits_of(read));
  }
}

TEST_CASE("sessions of one engine on different threads take turns") {
  const Engine engine(demo(), {.context = 256, .threads = 2});
  std::vector<std::string> texts(4), expected(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    expected[i] = Session(demo(), {.context = 256, .threads = 1}).stream(prompts[i % 3], options_of(i, 30)).text();
    threads.emplace_back([&, i] { texts[i] = Session(engine).stream(prompts[i % 3], options_of(i, 30)).text(); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(texts == expected);
}

TEST_CASE("a callback that uses its engine is told so, and the session is as it was") {
  const Engine engine(demo(), {.context = 256, .threads = 2});
  Session other(engine);
  other.prefill("Once upon a time");
  Session session(engine, {.progress = [&](std::int64_t read, std::int64_t total) { return read == total || !logits_of(other).empty(); }});
  CHECK(logits_of(other).size() > 0);  // known already: no pass
  session.prefill(prompts[0]);
  const std::vector<TokenId> held = session.tokens();
  other.truncate(1);
  CHECK(test::error_of([&] { session.prefill(prompts[2]); }) == "engine: expected no pass within another, found one begun by its callback");
  CHECK(session.tokens() == held);
  (void)other.logits();
  session.prefill(prompts[2]);
}

TEST_CASE("an engine goes on in a child process, also when another thread was in a pass") {
  const Engine engine(demo(), {.context = 512, .threads = 3});
  const std::string expected = Session(demo(), {.context = 512}).stream(prompts[0], options_of(0, 12)).text();
  Session session(engine);
  session.prefill(prompts[0]);
  std::vector<TokenId> many(500, 7);
  std::atomic<bool> within = false, done = false;
  std::thread busy([&] {
    Session(engine, {.progress = [&](std::int64_t, std::int64_t) {
              within = true;
              while (!done) std::this_thread::yield();
              return true;
            }}).prefill(many);
  });
  while (!within) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const bool same = session.stream("", options_of(0, 12)).text() == expected && Session(engine).stream(prompts[0], options_of(0, 12)).text() == expected;
    { const Session gone = std::move(session); }
    _exit(same ? 0 : 1);
  }
  done = true;
  busy.join();
  REQUIRE(child >= 0);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(session.stream("", options_of(0, 12)).text() == expected);
}

TEST_CASE("an engine is one for all of its handles, and of one model and context") {
  const Engine engine(demo(), {.context = 128});
  const Engine copy = engine, equal(demo(), {.context = 128}), longer(demo(), {.context = 129});
  CHECK(copy.runs_like(engine));
  CHECK(equal.runs_like(engine));
  CHECK_FALSE(longer.runs_like(engine));
  CHECK(Engine(demo()).context() == demo().config().context);
  const std::vector<TokenId> word = demo().tokenizer().encode("Once");
  Session a(engine), b(copy), c(equal, {.context = 60}), d(longer);
  prefill(std::vector<Prompt>{{&a, word}, {&b, word}, {&c, word}});
  CHECK(logits_of(a) == logits_of(c));
  CHECK(test::error_of([&] { prefill(std::vector<Prompt>{{&a, word}, {&d, word}}); }).find("equal context") != std::string::npos);
}

TEST_CASE("dynamic rope scaling goes by the engine's context, for all of its sessions") {
  TinyModel tiny;
  tiny.make();
  tiny.config["rope_scaling"] = {{"type", "dynamic"}, {"factor", 4.0}};
  tiny.config["max_position_embeddings"] = 32;
  const test::TemporaryFolder folder;
  tiny.write_folder(folder.path());
  const Model model = Model::load(folder.path());
  const Engine engine(model, {.context = 100});
  const std::vector<TokenId> tokens = {3, 1, 4, 1, 5, 9, 2, 6};
  const auto logits = [&](Session session) {
    session.prefill(tokens);
    return logits_of(session);
  };
  const std::vector<float> expected = logits(Session(model, {.context = 100}));
  CHECK(logits(Session(engine, {.context = 20})) == expected);
  CHECK(logits(Session(model, {.context = 20})) != expected);
}

TEST_CASE("an engine without sessions reads sequences of any length in any pieces") {
  Engine engine(demo(), {.context = 1024, .threads = 2});
  std::vector<TokenId> tokens(700);
  std::iota(tokens.begin(), tokens.end(), 50);
  nn::SequenceState whole = engine.new_state(), pieces = engine.new_state();
  const std::vector<float> logits = read(engine, whole, tokens);
  for (std::size_t first = 0; first < tokens.size(); first += 233) {
    const auto part = std::span<const TokenId>(tokens).subspan(first, std::min<std::size_t>(233, tokens.size() - first));
    if (first + part.size() == tokens.size()) CHECK(read(engine, pieces, part) == logits);
    else (void)read(engine, pieces, part);
  }
  Session session(demo(), {.context = 1024});
  session.prefill(std::span<const TokenId>(tokens));
  CHECK(logits_of(session) == logits);

  // A branch from the middle, beside another that goes on: one pass.
  nn::SequenceState branch = whole.fork();
  branch.truncate(100);
  const std::vector<TokenId> word = {60, 61};
  const Engine::Sequence parts[] = {{word, &branch, 1}, {word, &whole, 1}};
  std::vector<std::vector<float>> rows(2);
  engine.run(parts, [&](std::int64_t i, std::int64_t, std::span<const float> row) { rows[static_cast<std::size_t>(i)].assign(row.begin(), row.end()); },
             [](std::int64_t) { return true; });
  CHECK(branch.tokens() == 102);
  CHECK(whole.tokens() == 702);
  nn::SequenceState fresh = engine.new_state();
  std::vector<TokenId> beginning(tokens.begin(), tokens.begin() + 100);
  beginning.insert(beginning.end(), word.begin(), word.end());
  CHECK(read(engine, fresh, beginning) == rows[0]);
  CHECK(read(engine, pieces, word) == rows[1]);
}

TEST_CASE("what an engine cannot do is refused with one line, and states stay as they were") {
  Engine engine(demo(), {.context = 16, .threads = 1});
  nn::SequenceState state = engine.new_state();
  (void)read(engine, state, std::vector<TokenId>{1, 2, 3});
  const auto refused = [&](FunctionRef<void()> work) {
    const std::string error = test::error_of([&] { work(); });
    CHECK(state.tokens() == 3);
    return error;
  };
  CHECK(refused([&] { (void)read(engine, state, std::vector<TokenId>{4096}); }).starts_with("token id: expected 0 to"));
  CHECK(refused([&] { (void)read(engine, state, std::vector<TokenId>(14, 1)); }) == "context: expected at most 16 tokens, 3 are held and 14 more were given");
  const std::vector<TokenId> one = {1}, two = {1, 2};
  const auto run = [&](std::initializer_list<Engine::Sequence> parts, FunctionRef<bool(std::int64_t)> keep_going) {
    engine.run({parts.begin(), parts.size()}, [](std::int64_t, std::int64_t, std::span<const float>) {}, keep_going);
  };
  const auto yes = [](std::int64_t) { return true; };
  CHECK(refused([&] { run({{one, &state}, {one, &state}}, yes); }).starts_with("engine: expected a state of its own"));
  CHECK(refused([&] { run({{one, nullptr}}, yes); }).starts_with("engine: expected a state of its own"));
  CHECK(refused([&] { run({{two, &state}}, [](std::int64_t) { return false; }); }).starts_with("cancelled"));
  CHECK(refused([&] { run({{two, &state}}, [](std::int64_t) -> bool { fail(Errc::invalid_argument, "mine"); }); }) == "mine");
  CHECK(refused([&] { engine.run(std::vector<Engine::Sequence>{{two, &state}}, [](std::int64_t, std::int64_t, std::span<const float>) { fail(Errc::invalid_argument, "mine"); }, yes); }) == "mine");
  CHECK(refused([&] { engine.remove(state, 1, 4); }) == "remove: expected a range of the 3 tokens read, found 1 to 4");
  CHECK_FALSE(test::error_of([&] { Engine wrong(demo(), {.context = -1}); }).empty());
  CHECK_FALSE(test::error_of([&] { Engine wrong(demo(), {.threads = -1}); }).empty());
  CHECK_FALSE(test::error_of([&] { (void)engine.new_state("q5"); }).empty());
  CHECK(test::error_of([&] { Session wrong(engine, {.context = 17}); }) == "context: expected 0 to 16 tokens (the engine's), found 17");
  CHECK_FALSE(test::error_of([&] { Session wrong(engine, {.context = -1}); }).empty());
  CHECK(test::error_of([&] { Session wrong(engine, {.threads = 2}); }) == "threads: expected 0 (the engine has some), found 2");
}
