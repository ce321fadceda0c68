// Texts of many requests at once: each is what its request alone gives.
#include "bantam/session/scheduler.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "bantam/model/divergence.hpp"
#include "session/demo.hpp"
#include "tiny_model.hpp"

using namespace bantam;
using namespace bantam::test;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t scheduler_context = 1200;

/// What came of a request, text by text.
class Outcome {
 public:
  struct Of {
    std::string text, error, stop_text;
    std::optional<Errc> code;
    std::vector<DrawnToken> tokens, prompt;
    TextEnd end = TextEnd::running;
    TextStats stats;
    [[nodiscard]] std::vector<TokenId> ids() const {
      std::vector<TokenId> out;
      for (const DrawnToken& token : tokens) out.push_back(token.id);
      return out;
    }
  };

  explicit Outcome(std::size_t texts) : state_(std::make_shared<State>()) {
    state_->of.resize(texts);
    state_->left = texts;
  }

  /// May be called when this is gone already.
  [[nodiscard]] TextListener listener(std::function<void(const TextUpdate&)> then = {}) {
    return [state = state_, then = std::move(then)](const TextUpdate& update) {
      {
        const std::lock_guard lock(state->mutex);
        Of& of = state->of.at(update.text);
        of.text += update.piece;
        of.tokens.insert(of.tokens.end(), update.tokens.begin(), update.tokens.end());
        of.prompt.insert(of.prompt.end(), update.prompt.begin(), update.prompt.end());
        of.end = update.end;
        of.error = update.error;
        of.code = update.code;
        of.stop_text = update.stop_text;
        of.stats = update.stats;
        if (update.end != TextEnd::running) --state->left;
        state->changed.notify_all();
      }
      if (then) then(update);
    };
  }
  /// Waits until all ended.
  const std::vector<Of>& wait() {
    std::unique_lock lock(state_->mutex);
    const bool ended = state_->changed.wait_for(lock, 120s, [&] { return state_->left == 0; });
    REQUIRE(ended);
    return state_->of;
  }
  /// Waits until a text has so many tokens, or ended.
  void wait_for_tokens(std::size_t text, std::size_t count) {
    std::unique_lock lock(state_->mutex);
    const bool came = state_->changed.wait_for(lock, 120s, [&] {
      return state_->of[text].tokens.size() >= count || state_->of[text].end != TextEnd::running;
    });
    REQUIRE(came);
  }
  [[nodiscard]] std::size_t tokens(std::size_t text) {
    const std::lock_guard lock(state_->mutex);
    return state_->of[text].tokens.size();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Of> of;
    std::size_t left = 0;
  };
  std::shared_ptr<State> state_;
};

const Engine& stepping_engine() {
  static const Engine engine(demo(), {.context = scheduler_context, .threads = 2});
  return engine;
}

std::vector<TokenId> spelled(std::string_view text) { return demo().tokenizer().encode(text); }

/// A prompt of exactly so many tokens.
std::vector<TokenId> prompt_of_length(std::size_t count, TokenId first = 5) {
  std::vector<TokenId> tokens{1};
  while (tokens.size() < count) tokens.push_back(static_cast<TokenId>((static_cast<std::size_t>(first) + 37 * tokens.size()) % 4000 + 5));
  return tokens;
}

TextRequest text_request(std::vector<TokenId> prompt, std::int64_t max_tokens, std::uint64_t seed = 1) {
  TextRequest request;
  request.prompts = {std::move(prompt)};
  request.generate = {.max_tokens = max_tokens, .sampling = {.temperature = 1.0f, .seed = seed}, .ignore_end = true};
  return request;
}

/// What a request gives alone, one text after the other, each in a session of its own.
struct Alone {
  std::string text, stop_text;
  std::vector<TokenId> tokens;
  TextEnd end;
};

std::vector<Alone> alone_of(const Engine& engine, const TextRequest& request) {
  std::vector<Alone> all;
  for (const std::vector<TokenId>& prompt : request.prompts) {
    for (int i = 0; i < request.count; ++i) {
      GenerateOptions options = request.generate;
      options.sampling.seed += static_cast<std::uint64_t>(i);
      Session session(engine);
      TextRange range = session.stream(std::span<const TokenId>(prompt), options);
      std::string text = range.text();
      all.push_back({std::move(text), range.stop_text(), range.tokens(), range.finish() == Finish::length ? TextEnd::length : TextEnd::stop});
    }
  }
  return all;
}

void check_same(const TextRequest& request, const std::vector<Alone>& alone, const std::vector<Outcome::Of>& found) {
  REQUIRE(found.size() == alone.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].text == alone[i].text);
    CHECK(found[i].ids() == alone[i].tokens);
    CHECK(found[i].end == alone[i].end);
    CHECK(found[i].stop_text == alone[i].stop_text);
    CHECK(found[i].stats.generated_tokens == std::ssize(alone[i].tokens));
    CHECK(found[i].stats.prompt_tokens == std::ssize(request.prompts[i / static_cast<std::size_t>(request.count)]));
  }
}

void check_alone(const Engine& engine, const TextRequest& request, const std::vector<Outcome::Of>& found) {
  check_same(request, alone_of(engine, request), found);
}

std::vector<TextRequest> many_requests() {
  std::vector<TextRequest> all;
  const std::vector<TokenId> shared = spelled("The old captain looked at the sea for a long time, and then he said that");
  for (std::uint64_t i = 0; i < 4; ++i) {
    std::vector<TokenId> prompt = shared;
    const std::vector<TokenId> more = prompt_of_length(3 + 40 * i, static_cast<TokenId>(100 * i + 10));
    prompt.insert(prompt.end(), more.begin() + 1, more.end());
    all.push_back(text_request(std::move(prompt), 20, i));
  }
  all.push_back(text_request(prompt_of_length(700), 10, 9));
  TextRequest several = text_request(shared, 12, 40);
  several.count = 5;
  several.prompts.push_back(spelled("Once upon a time"));
  several.generate.sampling.repeat_penalty = 1.3f;  // which sees the prompt
  all.push_back(several);
  TextRequest stopped = text_request(spelled("It was a dark night, and the"), 60, 3);
  stopped.generate.stop = {" the", "e a"};
  stopped.generate.ignore_end = false;
  all.push_back(stopped);
  TextRequest strict = text_request(spelled("Is it so?"), 40, 5);
  strict.generate.grammar.emplace(Grammar::from_gbnf("root ::= [a-z ]{3,12} (\"yes\" | \"no\")"), demo().tokenizer());
  all.push_back(strict);
  all.push_back(text_request(spelled("Nothing"), 0));
  all.push_back(text_request(prompt_of_length(static_cast<std::size_t>(scheduler_context) - 6), 100));  // ends with the context
  return all;
}

}  // namespace

TEST_CASE("texts are those of their requests alone, whatever comes beside them and in whatever order") {
  const std::vector<TextRequest> requests = many_requests();
  std::vector<std::vector<Alone>> alone;
  for (const TextRequest& request : requests) alone.push_back(alone_of(stepping_engine(), request));
  Random random(7);
  for (const int parallel : {1, 3, 8}) {
    CAPTURE(parallel);
    std::vector<std::size_t> order(requests.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(random.uniform() * static_cast<double>(i))]);
    // Small steps: prompts are read in many pieces.
    Scheduler scheduler(stepping_engine(), {.parallel = parallel, .queue = 100, .step = 1ms});
    std::vector<std::unique_ptr<Outcome>> outcomes(requests.size());
    for (const std::size_t i : order) {
      const auto texts = requests[i].prompts.size() * static_cast<std::size_t>(requests[i].count);
      outcomes[i] = std::make_unique<Outcome>(texts);
      REQUIRE(scheduler.submit(requests[i], outcomes[i]->listener()));
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(8 * random.uniform()));
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      CAPTURE(i);
      check_same(requests[i], alone[i], outcomes[i]->wait());
    }
    CHECK(scheduler.wait(10s));
    const SchedulerStats stats = scheduler.stats();
    CHECK(stats.requests == 0);
    CHECK(stats.kept <= parallel);
    CHECK(stats.most_tokens == scheduler_context);
  }
}

TEST_CASE("texts that all threads draw for are those of their requests alone, beside one that fails") {
  constexpr int texts = 20;
  REQUIRE(texts * demo().config().vocab >= 1 << 16);  // else one thread is enough
  Scheduler scheduler(stepping_engine(), {.parallel = texts + 1});
  std::vector<TextRequest> requests;
  for (std::uint64_t i = 0; i < texts; ++i) {
    requests.push_back(text_request(prompt_of_length(8, static_cast<TokenId>(50 * i)), 12, i));
    if (i % 4 == 1) requests.back().generate.grammar.emplace(Grammar::from_gbnf("root ::= [a-z ]{3,12} (\"yes\" | \"no\")"), demo().tokenizer());
    if (i % 4 == 2) requests.back().generate.sampling.temperature = 0;
    if (i % 4 == 3) requests.back().top_logprobs = 3;
  }
  TextRequest bad = text_request(spelled("The"), 50);
  bad.generate.process = [caller = std::thread::id()](std::span<const TokenId> tokens, std::span<float>) mutable -> bool {
    if (caller == std::thread::id()) caller = std::this_thread::get_id();
    if (caller != std::this_thread::get_id()) throw Error(Errc::corrupt, "called from another thread");
    if (tokens.size() > 6) throw Error(Errc::corrupt, "this one is broken");
    return true;
  };
  Outcome broken(1);
  REQUIRE(scheduler.submit(bad, broken.listener()));
  std::vector<std::unique_ptr<Outcome>> outcomes;
  for (const TextRequest& request : requests) {
    outcomes.push_back(std::make_unique<Outcome>(1));
    REQUIRE(scheduler.submit(request, outcomes.back()->listener()));
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i);
    check_alone(stepping_engine(), requests[i], outcomes[i]->wait());
  }
  CHECK(broken.wait()[0].error == "this one is broken");
}

TEST_CASE("texts of models with recurrent states are those of their requests alone, prompts that begin alike included") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    if (arch->recurrent == MixerKind::none && !arch->full_layers_differ()) continue;
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .context = 400};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Engine engine(Model::load(folder / "hf"), {.threads = 1});
    Scheduler scheduler(engine, {.parallel = 2, .step = 1ms});
    const std::vector<TokenId> tokens = some_tokens(180);
    for (const std::size_t size : {180, 150, 90, 180, 20}) {
      TextRequest request = text_request({tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(size)}, 6);
      request.count = 2;
      Outcome outcome(2);
      REQUIRE(scheduler.submit(request, outcome.listener()));
      check_alone(engine, request, outcome.wait());
    }
  }
}

TEST_CASE("what other texts read is not read again") {
  Scheduler scheduler(stepping_engine(), {.parallel = 2});
  const auto run = [&](const TextRequest& request) {
    Outcome outcome(static_cast<std::size_t>(request.count));
    REQUIRE(scheduler.submit(request, outcome.listener()));
    const std::vector<Outcome::Of> found = outcome.wait();
    check_alone(stepping_engine(), request, found);
    return found;
  };
  const std::vector<TokenId> system = prompt_of_length(200);
  std::vector<TokenId> talk = system;
  talk.insert(talk.end(), {30, 31, 32});
  const auto first = run(text_request(talk, 10));
  CHECK(first[0].stats.reused_tokens == 0);
  // The next turn: all but its own tokens is there. The last token drawn was never read.
  const std::vector<TokenId> reply = first[0].ids();
  std::vector<TokenId> next = talk;
  next.insert(next.end(), reply.begin(), reply.end());
  next.insert(next.end(), {40, 41});
  const std::int64_t before = scheduler.stats().prompt_tokens;
  CHECK(run(text_request(next, 10))[0].stats.reused_tokens == std::ssize(next) - 3);
  CHECK(scheduler.stats().prompt_tokens == before + 3);
  // Another talk with the same beginning leaves the first one as it was.
  std::vector<TokenId> other = system;
  other.insert(other.end(), 300, 77);
  CHECK(run(text_request(other, 10))[0].stats.reused_tokens == std::ssize(system));
  next.push_back(50);
  CHECK(run(text_request(next, 4))[0].stats.reused_tokens == std::ssize(next) - 1);
  // One prompt is read once for all of its texts.
  TextRequest several = text_request(prompt_of_length(100, 900), 5);
  several.count = 4;
  const std::int64_t read = scheduler.stats().prompt_tokens;
  (void)run(several);
  CHECK(scheduler.stats().prompt_tokens == read + 99);  // BOS was there
  TextRequest unshared = text_request(next, 4);
  unshared.reuse = false;
  CHECK(run(unshared)[0].stats.reused_tokens == 0);
}

TEST_CASE("what is kept of a place is saved, put in another one, and forgotten") {
  Scheduler scheduler(stepping_engine(), {.parallel = 2});
  const auto run = [&](const TextRequest& request) {
    Outcome outcome(1);
    REQUIRE(scheduler.submit(request, outcome.listener()));
    const std::vector<Outcome::Of> found = outcome.wait();
    check_alone(stepping_engine(), request, found);
    return found[0];
  };
  TextRequest request = text_request(prompt_of_length(150, 20), 10);
  request.place = 1;
  const Outcome::Of first = run(request);
  CHECK(first.stats.place == 1);
  std::vector<std::byte> saved, same;
  const auto into = [](std::vector<std::byte>& bytes) {
    return [&bytes](std::span<const std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); };
  };
  CHECK(scheduler.save_text(0, into(same)) == 0);
  CHECK(scheduler.save_kept(1, into(same)) == 0);
  CHECK(same.empty());
  CHECK(scheduler.save_text(1, into(saved)) == 160);
  CHECK(scheduler.save_kept(0, into(same)) == 160);
  CHECK(same == saved);
  CHECK_THROWS_AS((void)scheduler.save_text(1, [](std::span<const std::byte>) { fail(Errc::io, "full"); }), Error);
  CHECK(scheduler.forget_text(1) == 160);
  CHECK(scheduler.forget_text(1) == 0);
  CHECK(run(request).stats.reused_tokens == 0);
  CHECK(scheduler.forget_text(1) == 160);
  scheduler.keep_text(0, Session::restore(stepping_engine(), saved));
  request.place = -1;
  CHECK(run(request).stats.reused_tokens == 149);
  CHECK_THROWS_AS((void)scheduler.save_text(2, into(same)), Error);
  CHECK_THROWS_AS((void)scheduler.forget_text(-1), Error);
  CHECK_THROWS_AS(scheduler.keep_text(0, Session(demo())), Error);
  CHECK_THROWS_AS(scheduler.keep_text(0, Session(stepping_engine(), {.kv = "q8"})), Error);
  CHECK_THROWS_AS(scheduler.keep_text(0, Session(stepping_engine(), {.context = 100})), Error);
  // While others are being written to.
  Outcome beside(1), other(1);
  const TextRequest busy = text_request(spelled("The sea was"), 200, 11), wants_the_same = text_request(spelled("A dog"), 5);
  REQUIRE(scheduler.submit(busy, beside.listener()));
  REQUIRE(scheduler.submit(wants_the_same, other.listener()));
  CHECK(scheduler.forget_text(0) + scheduler.forget_text(1) >= 0);
  check_alone(stepping_engine(), busy, beside.wait());
  check_alone(stepping_engine(), wants_the_same, other.wait());
}

TEST_CASE("tokens of one's own end texts, and none does before there are enough") {
  Scheduler scheduler(stepping_engine(), {.parallel = 2});
  const auto run = [&](TextRequest request) {
    Outcome outcome(1);
    REQUIRE(scheduler.submit(request, outcome.listener()));
    const std::vector<Outcome::Of> found = outcome.wait();
    check_alone(stepping_engine(), request, found);
    return found[0];
  };
  TextRequest request = text_request(spelled("The old captain"), 40, 3);
  const std::vector<TokenId> whole = run(request).ids();
  request.generate.end_tokens = {whole[7]};
  const Outcome::Of ended = run(request);
  CHECK(ended.end == TextEnd::stop);
  const auto first = std::ranges::find(whole, whole[7]);
  CHECK(ended.ids() == std::vector<TokenId>(whole.begin(), first));
  request.generate.min_tokens = 20;
  const std::vector<TokenId> longer = run(request).ids();
  CHECK(longer.size() >= 20);
  CHECK(std::ranges::find(longer, whole[7]) == longer.end());
  // Where nothing else may come an end does.
  request.generate.end_tokens = {};
  request.generate.ignore_end = false;
  request.generate.grammar.emplace(Grammar::from_gbnf("root ::= \"yes\""), demo().tokenizer());
  CHECK(run(request).text == "yes");
}

TEST_CASE("what many ask for at once is read once") {
  Scheduler scheduler(stepping_engine(), {.parallel = 4, .step = 1ms});
  const std::vector<TokenId> shared = prompt_of_length(900, 44);
  std::vector<TextRequest> requests;
  std::vector<Outcome> outcomes;
  for (TokenId last = 100; last < 106; ++last) {
    std::vector<TokenId> prompt = shared;
    prompt.push_back(last);
    requests.push_back(text_request(std::move(prompt), 6));
    REQUIRE(scheduler.submit(requests.back(), outcomes.emplace_back(1).listener()));
  }
  for (std::size_t i = 0; i < requests.size(); ++i) check_alone(stepping_engine(), requests[i], outcomes[i].wait());
  CHECK(scheduler.stats().prompt_tokens == 900 + 6);
  // Where the first goes away, another reads.
  Outcome first(1), second(1);
  const TextRequest again = text_request(prompt_of_length(900, 45), 3);
  const auto id = scheduler.submit(again, first.listener());
  REQUIRE(id);
  REQUIRE(scheduler.submit(again, second.listener()));
  scheduler.cancel(*id);
  check_alone(stepping_engine(), again, second.wait());
}

TEST_CASE("a cancelled request ends within a step and leaves its place to others, whose texts are the same") {
  Scheduler scheduler(stepping_engine(), {.parallel = 2, .queue = 2});
  Outcome cancelled(1), other(1), waiting(1), reading(1);
  const TextRequest long_text = text_request(spelled("The sea was"), 900, 11);
  const auto id = scheduler.submit(long_text, cancelled.listener());
  REQUIRE(id);
  const TextRequest beside = text_request(spelled("The old captain"), 300, 12);
  REQUIRE(scheduler.submit(beside, other.listener()));
  const auto queued = scheduler.submit(text_request(spelled("Never"), 5), waiting.listener());
  REQUIRE(queued);
  cancelled.wait_for_tokens(0, 5);
  scheduler.cancel(*queued);
  CHECK(waiting.wait()[0].end == TextEnd::cancelled);
  CHECK(waiting.wait()[0].tokens.empty());
  std::size_t after = 0;
  scheduler.cancel(*id);
  after = cancelled.tokens(0);
  const Outcome::Of& ended = cancelled.wait()[0];
  CHECK(ended.end == TextEnd::cancelled);
  CHECK(ended.tokens.size() <= after + 1);
  // Its beginning is that of the whole text.
  Session session(stepping_engine());
  GenerateOptions options = long_text.generate;
  options.max_tokens = std::ssize(ended.tokens);
  TextRange range = session.stream(std::span<const TokenId>(long_text.prompts[0]), options);
  (void)range.text();
  CHECK(ended.ids() == range.tokens());
  // In the middle of a prompt, which is then kept as far as it was read.
  const TextRequest book = text_request(prompt_of_length(1000, 700), 5);
  const auto book_id = scheduler.submit(book, reading.listener());
  REQUIRE(book_id);
  scheduler.cancel(*book_id);
  CHECK(reading.wait()[0].end == TextEnd::cancelled);
  Outcome again(1);
  REQUIRE(scheduler.submit(book, again.listener()));
  check_alone(stepping_engine(), book, again.wait());
  check_alone(stepping_engine(), beside, other.wait());
  scheduler.cancel(*id);  // nothing
  scheduler.cancel(12345);
}

TEST_CASE("the queue is bounded") {
  Scheduler scheduler(stepping_engine(), {.parallel = 1, .queue = 1});
  Outcome first(1), second(1), third(1);
  const auto id = scheduler.submit(text_request(spelled("The"), 1000), first.listener());
  REQUIRE(id);
  REQUIRE(scheduler.submit(text_request(spelled("A"), 3), second.listener()));
  CHECK_FALSE(scheduler.submit(text_request(spelled("An"), 3), third.listener()));
  CHECK(scheduler.stats().refused == 1);
  CHECK(scheduler.stats().requests == 2);
  scheduler.cancel(*id);
  CHECK(second.wait()[0].end == TextEnd::length);
  CHECK(scheduler.wait(10s));
  REQUIRE(scheduler.submit(text_request(spelled("An"), 3), third.listener()));
  CHECK(third.wait()[0].end == TextEnd::length);
  scheduler.close();
  CHECK_FALSE(scheduler.submit(text_request(spelled("An"), 3), third.listener()));
}

TEST_CASE("who is told of the end finds room in the queue") {
  Scheduler scheduler(stepping_engine(), {.parallel = 1, .queue = 0});
  for (int i = 0; i < 100; ++i) {
    Outcome outcome(1);
    REQUIRE(scheduler.submit(text_request(spelled("The"), 1), outcome.listener()));
    (void)outcome.wait();
  }
}

TEST_CASE("a long prompt does not hold up those who are being written to") {
  Scheduler scheduler(stepping_engine(), {.parallel = 3, .step = 1ms});
  Outcome text(1), book(1), line(1);
  REQUIRE(scheduler.submit(text_request(spelled("The sea"), 1000, 2), text.listener()));
  text.wait_for_tokens(0, 3);
  // The first measures what reading costs.
  Outcome measured(1);
  REQUIRE(scheduler.submit(text_request(prompt_of_length(200, 333), 1), measured.listener()));
  (void)measured.wait();
  const std::size_t before = text.tokens(0);
  std::atomic<bool> book_began{false}, line_ended_first{false};
  REQUIRE(scheduler.submit(text_request(prompt_of_length(1100, 55), 1), book.listener([&](const TextUpdate&) { book_began = true; })));
  REQUIRE(scheduler.submit(text_request(spelled("A line"), 3), line.listener([&](const TextUpdate& update) {
    if (update.end != TextEnd::running) line_ended_first = !book_began;
  })));
  CHECK(scheduler.wait(60s));
  // The prompt was read in pieces of 32 tokens, or what a millisecond reads of them.
  CHECK(text.tokens(0) - before >= 2);
  CHECK(line_ended_first);
}

TEST_CASE("places that become free go to who had none for longest") {
  Scheduler scheduler(stepping_engine(), {.parallel = 1, .queue = 20});
  std::mutex mutex;
  std::string order;
  const auto submit = [&](const std::string& client, std::int64_t tokens) {
    TextRequest request = text_request(spelled("The"), tokens);
    request.client = client;
    REQUIRE(scheduler.submit(request, [&, client](const TextUpdate& update) {
      const std::lock_guard lock(mutex);
      if (update.end != TextEnd::running) order += client;
    }));
  };
  submit("a", 600);  // the others come meanwhile
  for (int i = 0; i < 3; ++i) submit("a", 5);
  for (int i = 0; i < 2; ++i) submit("b", 5);
  submit("c", 5);
  CHECK(scheduler.wait(60s));
  CHECK(order == "abcabaa");
}

TEST_CASE("places go to the highest priority, among equals in turns, and the first is passed over so often at most") {
  Scheduler scheduler(stepping_engine(), {.parallel = 1, .queue = 60});
  std::mutex mutex;
  std::string order;
  std::atomic<bool> begun{false}, goes_on{false};
  const auto submit = [&](char name, int priority, const std::string& client = "", const LogitsProcessor& process = {}) {
    TextRequest request = text_request(spelled("The"), 1);
    request.priority = priority;
    request.client = client;
    request.generate.process = process;
    REQUIRE(scheduler.submit(request, [&, name](const TextUpdate& update) {
      const std::lock_guard lock(mutex);
      if (update.end != TextEnd::running) order += name;
    }));
  };
  const auto run = [&](auto&& submit_all) {
    order.clear();
    begun = goes_on = false;
    // The others come while it has the place.
    submit('.', 0, "first", [&](std::span<const TokenId>, std::span<float>) {
      begun = true;
      begun.notify_all();
      goes_on.wait(false);
      return true;
    });
    begun.wait(false);
    submit_all();
    goes_on = true;
    goes_on.notify_all();
    CHECK(scheduler.wait(60s));
    return order;
  };
  CHECK(run([&] {
          submit('c', 0);
          submit('d', -3);
          submit('b', 5);
          submit('a', 1000000);
        }) == ".abcd");
  // Of the same priority clients take turns; who hurries less comes behind all of them.
  CHECK(run([&] {
          submit('z', 0, "other");
          for (int i = 0; i < 3; ++i) submit('x', 1, "one");
          for (int i = 0; i < 2; ++i) submit('y', 1, "two");
        }) == ".xyxyxz");
  // Whatever comes, nobody waits for ever.
  CHECK(run([&] {
          submit('p', -1);
          submit('q', -2);
          for (int i = 0; i < 40; ++i) submit('h', 7);
        }) == "." + std::string(16, 'h') + "p" + std::string(16, 'h') + "q" + std::string(8, 'h'));
  CHECK(scheduler.stats().refused == 0);
}

TEST_CASE("passes are told, with the tokens and texts that they had") {
  std::mutex mutex;
  std::vector<SchedulerPass> passes;
  Scheduler scheduler(stepping_engine(), {.parallel = 2, .on_pass = [&](const SchedulerPass& pass) {
    const std::lock_guard lock(mutex);
    passes.push_back(pass);
  }});
  const TextRequest request = text_request(prompt_of_length(50), 6);
  Outcome outcome(1);
  REQUIRE(scheduler.submit(request, outcome.listener()));
  (void)outcome.wait();
  REQUIRE(scheduler.wait(120s));
  const std::lock_guard lock(mutex);
  std::int64_t read = 0;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    CHECK(passes[i].texts == 1);
    CHECK(passes[i].begin <= passes[i].end);
    if (i > 0) CHECK(passes[i - 1].end <= passes[i].begin);
    read += passes[i].prompt_tokens;
  }
  CHECK(read == 50);
  // The last pass over the prompt gives the first token.
  CHECK(std::ranges::count(passes, 0, &SchedulerPass::prompt_tokens) == 5);
}

TEST_CASE("passes tell what streaming weights took in them") {
  const std::filesystem::path path = std::filesystem::path(BANTAM_SOURCE_DIR) / "models" / "stories-moe";
  const std::int64_t all = bytes_in_memory(Checkpoint::open(path));
  const Model model = Model::load(path, {.memory_limit = all / 2});
  StreamStats told;
  Scheduler scheduler(Engine(model, {.threads = 1}), {.on_pass = [&](const SchedulerPass& pass) {
    told.streamed_bytes += pass.weights.streamed_bytes;
    told.expert_hits += pass.weights.expert_hits;
    told.expert_misses += pass.weights.expert_misses;
    told.waited_seconds += pass.weights.waited_seconds;
  }});
  Outcome outcome(1);
  REQUIRE(scheduler.submit(text_request(model.tokenizer().encode("Lily found a red ball in the garden."), 6), outcome.listener()));
  (void)outcome.wait();
  REQUIRE(scheduler.wait(120s));
  const StreamStats counted = scheduler.stats().weights;
  CHECK(counted.resident_bytes < all);
  CHECK(told.streamed_bytes > 0);
  CHECK(told.streamed_bytes == counted.streamed_bytes);
  CHECK(told.expert_hits > 0);
  CHECK(told.expert_hits == counted.expert_hits);
  CHECK(told.expert_misses > 0);
  CHECK(told.expert_misses == counted.expert_misses);
  CHECK(told.waited_seconds == doctest::Approx(counted.waited_seconds));
}

TEST_CASE("how much of a prompt is read is told to who wants to know, and changes nothing of its texts") {
  Scheduler scheduler(stepping_engine(), {.parallel = 2, .step = 1ms});
  TextRequest request = text_request(prompt_of_length(1100, 71), 4, 3);
  request.count = 2;
  const std::vector<Alone> alone = alone_of(stepping_engine(), request);
  for (const bool tells : {true, false, true}) {
    CAPTURE(tells);
    request.tells_reading = tells;
    std::mutex mutex;
    std::vector<TextStats> told;
    Outcome outcome(2);
    REQUIRE(scheduler.submit(request, outcome.listener([&](const TextUpdate& update) {
      const std::lock_guard lock(mutex);
      if (!update.tokens.empty() || update.end != TextEnd::running) return;
      CHECK(update.text == 0);
      CHECK(update.piece.empty());
      CHECK(update.stats.generated_tokens == 0);
      told.push_back(update.stats);
    })));
    check_same(request, alone, outcome.wait());
    REQUIRE(scheduler.wait(60s));
    const std::lock_guard lock(mutex);
    if (!tells) {
      CHECK(told.empty());
      continue;
    }
    REQUIRE(told.size() >= 2);
    CHECK(told.front().read_tokens == told.front().reused_tokens);
    CHECK(told.back().read_tokens == 1100);
    for (std::size_t i = 1; i < told.size(); ++i) {
      CHECK(told[i - 1].read_tokens < told[i].read_tokens);
      CHECK(told[i].reused_tokens == told[0].reused_tokens);
      CHECK(told[i].prompt_tokens == 1100);
    }
  }
}

TEST_CASE("fewer places and threads change how long texts take, and nothing of what they are") {
  std::mutex mutex;
  std::int64_t most = 0;
  Engine engine = stepping_engine();
  Scheduler scheduler(engine, {.parallel = 4, .queue = 16, .on_pass = [&](const SchedulerPass& pass) {
    const std::lock_guard lock(mutex);
    most = std::max(most, pass.texts);
  }});
  scheduler.limit_places(1);
  engine.limit_threads(1);
  std::vector<TextRequest> requests;
  std::vector<Outcome> outcomes;
  for (std::size_t i = 0; i < 6; ++i) {
    requests.push_back(text_request(prompt_of_length(20, static_cast<TokenId>(7 + i)), 12, i));
    outcomes.emplace_back(1);
  }
  const auto submit = [&](std::size_t i) { REQUIRE(scheduler.submit(requests[i], outcomes[i].listener())); };
  for (const std::size_t i : {0U, 1U, 2U}) submit(i);
  for (const std::size_t i : {0U, 1U, 2U}) (void)outcomes[i].wait();
  {
    const std::lock_guard lock(mutex);
    CHECK(most == 1);
  }
  // All come back, and numbers that make no sense mean the nearest ones that do.
  scheduler.limit_places(1000);
  engine.limit_threads(-1);
  for (const std::size_t i : {3U, 4U, 5U}) submit(i);
  for (const std::size_t i : {3U, 4U, 5U}) (void)outcomes[i].wait();
  for (std::size_t i = 0; i < outcomes.size(); ++i) check_alone(stepping_engine(), requests[i], outcomes[i].wait());
  scheduler.limit_places(0);
  Outcome last(1);
  REQUIRE(scheduler.submit(requests[0], last.listener()));
  check_alone(stepping_engine(), requests[0], last.wait());
}

TEST_CASE("who waits too long is told so") {
  Scheduler scheduler(stepping_engine(), {.parallel = 1});
  Outcome first(1), waiting(1), slow(1);
  const auto id = scheduler.submit(text_request(spelled("The"), 1100), first.listener());
  TextRequest impatient = text_request(spelled("A"), 3);
  impatient.most_waiting = 10ms;
  REQUIRE(scheduler.submit(impatient, waiting.listener()));
  CHECK(waiting.wait()[0].end == TextEnd::late);
  scheduler.cancel(*id);
  (void)first.wait();
  TextRequest endless = text_request(spelled("A"), 1190);
  endless.most_time = 5ms;
  endless.most_waiting = 10s;
  REQUIRE(scheduler.submit(endless, slow.listener()));
  CHECK(slow.wait()[0].end == TextEnd::late);
}

TEST_CASE("what fails in one text fails there alone") {
  Scheduler scheduler(stepping_engine(), {.parallel = 3});
  Outcome broken(2), well(1), deaf(1);
  TextRequest bad = text_request(spelled("The"), 50);
  bad.count = 2;
  bad.generate.process = [](std::span<const TokenId> tokens, std::span<float>) -> bool {
    if (tokens.size() > 10) throw Error(Errc::corrupt, "this one is broken");
    return true;
  };
  REQUIRE(scheduler.submit(bad, broken.listener()));
  const TextRequest good = text_request(spelled("The old"), 50);
  REQUIRE(scheduler.submit(good, well.listener()));
  for (const Outcome::Of& of : broken.wait()) {
    CHECK(of.end == TextEnd::failed);
    CHECK(of.error == "this one is broken");
    CHECK(of.code == Errc::corrupt);
  }
  check_alone(stepping_engine(), good, well.wait());
  // Who cannot listen is not spoken to for long.
  REQUIRE(scheduler.submit(text_request(spelled("A"), 1000), deaf.listener([](const TextUpdate&) { throw std::runtime_error("deaf"); })));
  CHECK(deaf.wait()[0].end == TextEnd::cancelled);
  CHECK(scheduler.wait(10s));
}

TEST_CASE("log probabilities are those of the model") {
  Scheduler scheduler(stepping_engine());
  TextRequest request = text_request(spelled("The old captain"), 6);
  request.top_logprobs = 3;
  Outcome outcome(1);
  REQUIRE(scheduler.submit(request, outcome.listener()));
  Session session(stepping_engine());
  session.prefill(request.prompts[0]);
  for (const DrawnToken& token : outcome.wait()[0].tokens) {
    const std::vector<float> logits = logits_of(session);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    const auto expected = [&](TokenId id) {
      return doctest::Approx(static_cast<double>(logits[static_cast<std::size_t>(id)]) - std::log(sum)).epsilon(1e-5);
    };
    CHECK(token.logprob == expected(token.id));
    REQUIRE(token.top.size() == 3);
    CHECK(token.top[0].first == std::ranges::max_element(logits) - logits.begin());
    for (const auto& [id, logprob] : token.top) CHECK(logprob == expected(id));
    CHECK(std::ranges::is_sorted(token.top, std::ranges::greater(), &std::pair<TokenId, float>::second));
    session.prefill(std::span(&token.id, 1));
  }
}

TEST_CASE("log probabilities of prompts are, bit for bit, those of the session that scores them alone") {
  Scheduler scheduler(stepping_engine(), {.parallel = 4, .step = 1ms});
  // Beside others, and where all of it was read before.
  Outcome beside(1), before(1);
  REQUIRE(scheduler.submit(text_request(spelled("The sea"), 400, 2), beside.listener()));
  const std::vector<TokenId> prompt = prompt_of_length(300, 70);
  REQUIRE(scheduler.submit(text_request(prompt, 1), before.listener()));
  (void)before.wait();
  for (const std::int64_t max_tokens : {0, 5}) {
    TextRequest request = text_request(prompt, max_tokens);
    request.prompts.push_back(spelled("It was a dark night"));
    request.prompts.push_back({7});
    request.count = 2;
    request.prompt_logprobs = 2;
    Outcome outcome(6);
    REQUIRE(scheduler.submit(request, outcome.listener()));
    const std::vector<Outcome::Of>& found = outcome.wait();
    check_alone(stepping_engine(), request, found);
    for (std::size_t p = 0; p < 3; ++p) {
      CAPTURE(p);
      const std::vector<TokenId>& tokens = request.prompts[p];
      CHECK(found[2 * p].stats.reused_tokens == 0);
      CHECK(found[2 * p + 1].prompt.empty());
      const std::vector<DrawnToken>& scored = found[2 * p].prompt;
      REQUIRE(scored.size() == tokens.size() - 1);
      Session session(stepping_engine());
      session.score(tokens, [&](std::int64_t index, std::span<const float> row) {
        const auto at = static_cast<std::size_t>(index);
        if (at + 1 == tokens.size()) return;
        const double total = log_sum_exp(row);
        const auto logprob = [&](TokenId id) { return static_cast<float>(static_cast<double>(row[static_cast<std::size_t>(id)]) - total); };
        CHECK(scored[at].id == tokens[at + 1]);
        CHECK(scored[at].logprob == logprob(tokens[at + 1]));
        const float own = row[static_cast<std::size_t>(tokens[at + 1])];
        std::int64_t rank = 1;
        for (TokenId id = 0; id < std::ssize(row); ++id) rank += row[static_cast<std::size_t>(id)] > own || (row[static_cast<std::size_t>(id)] == own && id < tokens[at + 1]);
        CHECK(scored[at].rank == rank);
        REQUIRE(scored[at].top.size() == 2);
        CHECK(scored[at].top[0].first == std::ranges::max_element(row) - row.begin());
        CHECK(scored[at].top[0].second >= scored[at].top[1].second);
        for (const auto& [id, value] : scored[at].top) CHECK(value == logprob(id));
      });
    }
  }
  (void)beside.wait();
}

TEST_CASE("guesses are checked in the batch, and leave every text as it is") {
  const std::vector<TextRequest> requests = many_requests();
  struct Way {
    std::string_view name;
    SchedulerOptions options;
  };
  // A draft that is the model itself is right wherever nothing but the most probable token counts.
  const std::vector<Way> ways{{"lookup", {.parallel = 5, .queue = 100, .step = 1ms, .lookup = 6}},
                              {"draft", {.parallel = 5, .queue = 100, .step = 1ms, .draft = DraftModel{demo()}}},
                              {"both, alone", {.parallel = 1, .queue = 100, .lookup = 3, .draft = DraftModel{demo()}}}};
  for (const float temperature : {1.0f, 0.0f}) {
    CAPTURE(temperature);
    std::vector<TextRequest> asked = requests;
    std::vector<std::vector<Alone>> alone;
    for (TextRequest& request : asked) {
      request.generate.sampling.temperature = temperature;
      request.top_logprobs = 1;
      alone.push_back(alone_of(stepping_engine(), request));
    }
    for (const auto& [name, options] : ways) {
      CAPTURE(std::string(name));
      Scheduler scheduler(stepping_engine(), options);
      std::vector<std::unique_ptr<Outcome>> outcomes;
      for (std::size_t i = 0; i < asked.size(); ++i) {
        outcomes.push_back(std::make_unique<Outcome>(alone[i].size()));
        REQUIRE(scheduler.submit(asked[i], outcomes.back()->listener()));
      }
      std::int64_t guessed = 0, right = 0;
      for (std::size_t i = 0; i < asked.size(); ++i) {
        CAPTURE(i);
        const std::vector<Outcome::Of>& found = outcomes[i]->wait();
        check_same(asked[i], alone[i], found);
        for (const Outcome::Of& of : found) {
          guessed += of.stats.guessed_tokens;
          right += of.stats.right_guesses;
          for (const DrawnToken& token : of.tokens) CHECK(token.logprob <= token.top[0].second);
        }
      }
      CHECK(scheduler.wait(10s));
      const SchedulerStats stats = scheduler.stats();
      CHECK(stats.guessed_tokens == guessed);
      CHECK(stats.right_guesses == right);
      CHECK(guessed > 0);
      CHECK(right > 0);
      // Texts end in the middle of guesses, and some requests have penalties and grammars; how much is guessed goes by time.
      if (options.draft && options.lookup == 0 && temperature == 0.0f) CHECK(2 * right > guessed);
    }
  }
  has(error_of([&] { const Scheduler scheduler(stepping_engine(), {.lookup = 17}); }), "lookup");
  has(error_of([&] { const Scheduler scheduler(stepping_engine(), {.mtp = 2}); }), "mtp");
  TinyModel other;
  other.make();
  const TemporaryFolder folder;
  other.write_folder(folder / "hf");
  has(error_of([&] { const Scheduler scheduler(stepping_engine(), {.draft = DraftModel{Model::load(folder / "hf")}}); }), "vocabulary");
}

TEST_CASE("guesses in the batch leave texts of all architectures as they are") {
  for (const ArchSpec* arch : architectures_by_state()) {
    if (!arch->causal) continue;
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .context = 400, .drafts = arch->may_draft()};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Model model = Model::load(folder / "hf");
    if (model.config().has_source()) continue;
    const Engine engine(model, {.threads = 1});
    std::vector<SchedulerOptions> ways{{.parallel = 3, .step = 1ms, .lookup = 4, .draft = DraftModel{model}}};
    if (engine.drafts()) ways.push_back({.parallel = 3, .step = 1ms, .mtp = 3});
    for (const SchedulerOptions& options : ways) {
      Scheduler scheduler(engine, options);
      std::vector<TextRequest> requests;
      std::vector<Outcome> outcomes;
      for (const int size : {90, 40, 7}) {
        // What repeats is guessed, rightly and wrongly.
        std::vector<TokenId> prompt = some_tokens(size), again = prompt;
        prompt.insert(prompt.end(), again.begin(), again.end());
        requests.push_back(text_request(std::move(prompt), 24, static_cast<std::uint64_t>(size)));
        if (size == 40) requests.back().generate.sampling.temperature = 0;
        if (size == 7) requests.back().count = 2;
      }
      for (const TextRequest& request : requests) {
        outcomes.emplace_back(static_cast<std::size_t>(request.count));
        REQUIRE(scheduler.submit(request, outcomes.back().listener()));
      }
      for (std::size_t i = 0; i < requests.size(); ++i) {
        CAPTURE(i);
        check_alone(engine, requests[i], outcomes[i].wait());
      }
      CHECK(scheduler.stats().guessed_tokens > 0);
      // Another turn of the first goes on from what was kept of it, guesses taken back.
      const std::vector<Outcome::Of>& first = outcomes[0].wait();
      TextRequest next = requests[0];
      const std::vector<TokenId> reply = first[0].ids();
      next.prompts[0].insert(next.prompts[0].end(), reply.begin(), reply.end());
      next.prompts[0].push_back(5);
      Outcome outcome(1);
      REQUIRE(scheduler.submit(next, outcome.listener()));
      check_alone(engine, next, outcome.wait());
    }
  }
}

TEST_CASE("memory that runs out between a pass and its draws ends one text, and leaves the others as they are") {
  for (const ArchSpec* arch : architectures_by_state()) {
    if (!arch->causal) continue;
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .context = 400};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Model model = Model::load(folder / "hf");
    if (model.config().has_source()) continue;
    const Engine engine(model, {.threads = 1});
    // Guesses that are right: the pass has read several of a text's next tokens when nobody comes to draw.
    for (const int failing : {2, 3, 5}) {
      CAPTURE(failing);
      int passes = 0;
      const auto fails = [&](const SchedulerPass& pass) {
        if (pass.prompt_tokens == 0 && ++passes == failing) throw std::bad_alloc();
      };
      Scheduler scheduler(engine, {.parallel = 3, .kept = 0, .lookup = 4, .draft = DraftModel{model}, .on_pass = fails});
      std::vector<TextRequest> requests;
      std::vector<Outcome> outcomes;
      for (const int size : {9, 14, 20}) {
        requests.push_back(text_request(some_tokens(size), 40));
        requests.back().generate.sampling.temperature = 0;
        outcomes.emplace_back(1);
        REQUIRE(scheduler.submit(requests.back(), outcomes.back().listener()));
      }
      int failed = 0;
      for (std::size_t i = 0; i < requests.size(); ++i) {
        CAPTURE(i);
        const Outcome::Of& of = outcomes[i].wait()[0];
        if (of.end == TextEnd::failed) {
          CHECK(of.code == Errc::out_of_memory);
          ++failed;
        } else {
          check_alone(engine, requests[i], {of});
        }
      }
      CHECK(failed == 1);
      CHECK(scheduler.stats().guessed_tokens > 0);
    }
  }
}

TEST_CASE("requests that make no sense are refused at once, and the end cancels what runs") {
  Outcome outcome(1);
  {
    Scheduler scheduler(stepping_engine());
    const auto refusal = [&](auto&& change) {
      TextRequest request = text_request(spelled("The"), 5);
      change(request);
      return error_of([&] { (void)scheduler.submit(request, outcome.listener()); });
    };
    has(refusal([](TextRequest& r) { r.prompts = {}; }), "texts");
    has(refusal([](TextRequest& r) { r.prompts = {{}}; }), "at least one token");
    has(refusal([](TextRequest& r) { r.count = 0; }), "texts");
    has(refusal([](TextRequest& r) { r.count = 1025; }), "texts");
    has(refusal([](TextRequest& r) { r.prompts = {{-1}}; }), "token id");
    has(refusal([](TextRequest& r) { r.prompts = {prompt_of_length(static_cast<std::size_t>(scheduler_context) + 1)}; }), "context");
    has(refusal([](TextRequest& r) { r.generate.stop = {""}; }), "stop");
    has(refusal([](TextRequest& r) { r.generate.max_tokens = -2; }), "max_tokens");
    has(refusal([](TextRequest& r) { r.generate.sampling.top_p = 2; }), "top_p");
    REQUIRE(scheduler.submit(text_request(spelled("The"), 1000), outcome.listener()));
  }
  CHECK(outcome.wait()[0].end == TextEnd::cancelled);
  for (const SchedulerOptions& wrong : {SchedulerOptions{.parallel = 0}, SchedulerOptions{.queue = -2},
                                        SchedulerOptions{.kept = -2}, SchedulerOptions{.step = 0ms}}) {
    CHECK_FALSE(error_of([&] { const Scheduler scheduler(stepping_engine(), wrong); }).empty());
  }
}
