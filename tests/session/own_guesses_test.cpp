// Guesses of a model's own layer for them leave the text as it is, whatever a session went through.
#include "bantam/model/forward.hpp"
#include "bantam/nn/kv_state.hpp"
#include "bantam/nn/recurrent_state.hpp"
#include "limits.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// A model of every architecture whose files have such a layer.
std::vector<Model> guessing_models() {
  std::vector<Model> models;
  for (const ArchSpec* arch : architectures_by_parts()) {
    if (!arch->may_draft()) continue;
    TinyModel tiny{.arch = arch, .context = 800, .drafts = true};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    models.push_back(Model::load(folder / "hf"));
  }
  return models;
}

GenerateOptions options_of(float temperature, int mtp, std::int64_t tokens = 50) {
  return {.max_tokens = tokens, .sampling = {.temperature = temperature, .seed = 7}, .ignore_end = true, .speculation = {.mtp = mtp}};
}

SessionStats generate(Session& session, std::span<const TokenId> prompt, const GenerateOptions& options) {
  TextRange text = session.stream(prompt, options);
  (void)text.text();
  return text.stats();
}

TEST_CASE("guesses of a model's own layer leave its text as it is") {
  // Longer than what the layer reads at once.
  const std::vector<TokenId> prompt = some_tokens(600);
  for (const Model& model : guessing_models()) {
    CAPTURE(std::string(model.config().arch->name));
    for (const float temperature : {0.0f, 0.8f}) {
      Session plain(model, {.threads = 2}), guessing(model, {.threads = 2});
      generate(plain, prompt, options_of(temperature, 0));
      const SessionStats stats = generate(guessing, prompt, options_of(temperature, 4));
      CHECK(guessing.tokens() == plain.tokens());
      CHECK(stats.guessed_tokens > 0);
    }
  }
}

TEST_CASE("sessions with guesses of their own are cut, forked, batched and shortened as others") {
  const std::vector<TokenId> prompt = some_tokens(60), more = some_tokens(9);
  for (const Model& model : guessing_models()) {
    CAPTURE(std::string(model.config().arch->name));
    Session plain(model, {.threads = 1}), guessing(model, {.threads = 1});
    const auto both = [&](auto&& work) {
      work(plain, 0);
      work(guessing, 3);
      CHECK(guessing.tokens() == plain.tokens());
    };
    both([&](Session& s, int mtp) { generate(s, prompt, options_of(0.8f, mtp)); });
    both([&](Session& s, int mtp) {
      s.truncate(70);
      generate(s, more, options_of(0.8f, mtp, 20));
    });
    both([&](Session& s, int mtp) {
      Session fork = s.fork();
      generate(fork, more, options_of(0.8f, mtp, 20));
      s = std::move(fork);
    });
    both([&](Session& s, int mtp) {
      // What a batch reads, the layer does not see.
      std::vector<TextRange> batch;
      batch.push_back(s.stream(more, options_of(0.8f, mtp, 5)));
      while (advance(std::span(batch)) > 0) {}
      generate(s, more, options_of(0.8f, mtp, 20));
    });
    both([&](Session& s, int mtp) {
      s.remove(20, 40);
      generate(s, more, options_of(0.8f, mtp, 20));
    });
    both([&](Session& s, int mtp) {
      s.clear();
      generate(s, prompt, options_of(0.0f, mtp, 20));
    });
    const auto refused = [&](int mtp) { return error_of([&] { (void)guessing.stream(more, options_of(0, mtp)); }); };
    CHECK(refused(17) == "mtp: expected 0 to 16 tokens, found 17");
    CHECK(refused(-1) == "mtp: expected 0 to 16 tokens, found -1");
  }
}

/// The least that a text of so many tokens takes in sessions that guess.
std::int64_t least_memory(const Model& model, std::int64_t tokens) {
  const auto least = [&](nn::SequenceState state) {
    const auto* const keys = state.find<nn::KvState>();
    const auto* const recurrent = state.find<nn::RecurrentState>();
    return (keys == nullptr ? 0 : keys->cache().least_bytes(tokens, Forward::largest_chunk)) + (recurrent == nullptr ? 0 : recurrent->bytes_with(1));
  };
  return least(model.config().new_state("f16")) + least(model.config().drafter().new_state("f16"));
}

TEST_CASE("the layer that drafts shares the bound of its session's memory, and the text stays as it is") {
  for (const ArchSpec* arch : architectures_by_state()) {
    if (!arch->may_draft()) continue;
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .context = 2400, .drafts = true};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Model model = Model::load(folder / "hf");
    const std::vector<TokenId> prompt = some_tokens(2200);
    Session plain(model, {.threads = 2});
    generate(plain, prompt, options_of(0.8f, 0));
    const std::int64_t least = least_memory(model, model.config().context);
    for (const std::int64_t limit : {least, least * 5 / 4}) {
      if (quick() && limit != least) continue;
      CAPTURE(limit);
      Session guessing(model, {.threads = 2, .memory = {.limit = limit}});
      const SessionStats stats = generate(guessing, prompt, options_of(0.8f, 4));
      CHECK(guessing.tokens() == plain.tokens());
      CHECK(stats.guessed_tokens > 0);
      CHECK(guessing.kv_bytes() <= limit);
      if (limit == least) CHECK(guessing.state_stats().file_bytes > 0);

      Session fork = guessing.fork(), plain_fork = plain.fork();
      fork.truncate(1800);
      plain_fork.truncate(1800);
      generate(fork, some_tokens(300), options_of(0.8f, 3));
      generate(plain_fork, some_tokens(300), options_of(0.8f, 0));
      CHECK(fork.tokens() == plain_fork.tokens());
      CHECK(fork.kv_bytes() <= limit);
    }
  }
}

TEST_CASE("guesses are refused where the model has no layer for them") {
  TinyModel tiny;
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  Session session(Model::load(folder / "hf"));
  CHECK(error_of([&] { (void)session.stream(some_tokens(3), options_of(0, 2)); }) == "mtp: expected a model with a layer that drafts, found one without");
  CHECK(session.tokens().empty());
}

}  // namespace
}  // namespace bantam::test
