// Adapters of sessions: what they read is read again, what was saved with others is not taken.
#include "tiny_adapter.hpp"

namespace bantam::test {
namespace {

/// A model with two adapters.
struct Adapted {
  Adapted() {
    tiny.make();
    tiny.write_folder(folder / "hf");
    for (const std::uint64_t seed : {1, 2}) TinyAdapter{.model = tiny}.make(seed).write_folder(folder / message(seed));
    model = Model::load(folder / "hf");
    for (const int number : {1, 2}) adapters.push_back(Adapter::load(folder / message(number), model->config()));
  }
  [[nodiscard]] std::vector<ScaledAdapter> set(std::size_t number, float scale = 1) const { return {{adapters[number], scale}}; }

  TinyModel tiny;
  TemporaryFolder folder;
  std::optional<Model> model;
  std::vector<Adapter> adapters;
};

std::vector<float> next_logits(Session& session) {
  const std::span<const float> logits = session.logits();
  return {logits.begin(), logits.end()};
}

std::vector<float> read_by(const Adapted& a, std::vector<ScaledAdapter> set, const std::vector<TokenId>& tokens) {
  Session session(*a.model, {.kv = "f32", .adapters = std::move(set)});
  session.prefill(tokens);
  return next_logits(session);
}

TEST_CASE("after other adapters a session is as if it had always had them") {
  const Adapted a;
  const auto tokens = some_tokens(20);
  Session session(*a.model, {.kv = "f32"});
  session.prefill(tokens);
  CHECK(next_logits(session) == read_by(a, {}, tokens));
  session.set_adapters(a.set(0));
  CHECK(session.tokens() == tokens);
  CHECK(next_logits(session) == read_by(a, a.set(0), tokens));
  session.set_adapters(a.set(1, 0.5F));
  session.prefill(std::vector<TokenId>{4, 5});
  std::vector<TokenId> more = tokens;
  more.insert(more.end(), {4, 5});
  CHECK(next_logits(session) == read_by(a, a.set(1, 0.5F), more));
  session.set_adapters({});
  CHECK(next_logits(session) == read_by(a, {}, more));
  CHECK(session.adapters().empty());
}

TEST_CASE("the same adapters again cost no reading") {
  const Adapted a;
  std::int64_t read = 0;
  Session session(*a.model, {.kv = "f32", .progress = [&](std::int64_t done, std::int64_t) { return read = done, true; }, .adapters = a.set(0)});
  session.prefill(some_tokens(20));
  read = 0;
  session.set_adapters(a.set(0));
  (void)session.logits();
  CHECK(read == 0);
  session.set_adapters(a.set(0, 2));
  (void)session.logits();
  CHECK(read == 20);
}

TEST_CASE("generations go on with the adapters of now, in one pass for all") {
  const Adapted a;
  const GenerateOptions options{.max_tokens = 12, .sampling = {.temperature = 0}, .ignore_end = true};
  const Engine engine(*a.model, {.threads = 2});
  std::vector<Session> sessions;
  std::vector<TextRange> ranges;
  for (const auto& set : {std::vector<ScaledAdapter>(), a.set(0), a.set(1), a.set(0)}) sessions.emplace_back(engine, SessionOptions{.kv = "f32", .adapters = set});
  for (Session& session : sessions) ranges.push_back(session.stream(some_tokens(), options));
  while (advance(ranges) > 0) {
  }
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    Session alone(*a.model, {.kv = "f32", .adapters = {sessions[i].adapters().begin(), sessions[i].adapters().end()}});
    TextRange range = alone.stream(some_tokens(), options);
    (void)range.text();
    CHECK(range.tokens() == ranges[i].tokens());
  }
  CHECK(ranges[1].tokens() == ranges[3].tokens());
  // Guesses change nothing, and forks keep what they have.
  GenerateOptions guessing = options;
  guessing.speculation.lookup = 8;
  Session again(*a.model, {.kv = "f32", .adapters = a.set(0)});
  again.prefill(some_tokens());
  Session fork = again.fork();
  CHECK(fork.adapters().size() == 1);
  TextRange range = fork.stream(std::span<const TokenId>(), guessing);
  (void)range.text();
  CHECK(range.tokens() == ranges[1].tokens());
}

TEST_CASE("adapters may change in the middle of a generation") {
  const Adapted a;
  const GenerateOptions options{.max_tokens = 12, .sampling = {.temperature = 0}, .ignore_end = true, .speculation = {.lookup = 4}};
  Session session(*a.model, {.kv = "f32", .adapters = a.set(0)});
  TextRange range = session.stream(some_tokens(), options);
  for (int i = 0; i < 5; ++i) (void)range.next();
  const std::vector<TokenId> so_far = session.tokens();
  session.set_adapters(a.set(1));
  (void)range.text();
  Session other(*a.model, {.kv = "f32", .adapters = a.set(1)});
  GenerateOptions rest = options;
  rest.max_tokens = static_cast<std::int64_t>(some_tokens().size()) + 12 - std::ssize(so_far);
  (void)other.stream(so_far, rest).text();
  CHECK(session.tokens() == other.tokens());
}

TEST_CASE("a saved session goes on with its adapters alone") {
  const Adapted a;
  const TemporaryFolder folder;
  const auto tokens = some_tokens(20);
  for (const bool adapted : {false, true}) {
    Session session(*a.model, {.kv = "f32", .adapters = adapted ? a.set(0, 0.5F) : std::vector<ScaledAdapter>()});
    session.prefill(tokens);
    session.save(folder / "s");
    const auto restore = [&](std::vector<ScaledAdapter> set) { return Session::restore(*a.model, folder / "s", {.adapters = std::move(set)}); };
    Session same = restore(adapted ? a.set(0, 0.5F) : std::vector<ScaledAdapter>());
    CHECK(next_logits(same) == read_by(a, adapted ? a.set(0, 0.5F) : std::vector<ScaledAdapter>(), tokens));
    has(error_of([&] { (void)restore(adapted ? std::vector<ScaledAdapter>() : a.set(0)); }),
        adapted ? "expected a session without adapters, found one with others" : "expected a session with these adapters and scales, found one without any");
    if (!adapted) continue;
    has(error_of([&] { (void)restore(a.set(1, 0.5F)); }), "expected a session with these adapters and scales, found one with others");
    has(error_of([&] { (void)restore(a.set(0)); }), "expected a session with these adapters and scales, found one with others");
    // Bytes that are changed or cut are refused as ever.
    std::string bytes = read_file(folder / "s");
    bytes[20] = static_cast<char>(bytes[20] ^ 1);
    write_file(folder / "s", bytes);
    has(error_of([&] { (void)restore(a.set(0, 0.5F)); }), "expected the hash that the file ends with");
    for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{63}, std::size_t{64}, std::size_t{71}, std::size_t{80}}) {
      write_file(folder / "s", bytes.substr(0, size));
      (void)error_of([&] { (void)restore(a.set(0, 0.5F)); });
    }
  }
}

TEST_CASE("perplexity is of the model with its adapters") {
  const Adapted a;
  const std::vector<ScaledAdapter> set = a.set(0);
  const Model merged = Model::from_checkpoint(a.model->checkpoint().merged(set));
  const std::string text = "the quick brown fox jumps over the lazy dog";
  const PerplexityOptions options{.context = 16, .kv = "f32"};
  PerplexityOptions adapted = options;
  adapted.adapters = set;
  CHECK(perplexity(*a.model, text, adapted).nll == doctest::Approx(perplexity(merged, text, options).nll).epsilon(1e-5));
  CHECK(std::fabs(perplexity(*a.model, text, adapted).nll - perplexity(*a.model, text, options).nll) > 0.01);
}

}  // namespace
}  // namespace bantam::test
