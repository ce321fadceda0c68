// Sessions of models that keep recurrent states, or keys that several layers read: whatever a session does, it goes on as a fresh one that read the same.
#include <future>

#include "bantam/bantam.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// A model of every kind of recurrent layer, and of layers that differ in heads or read others' keys, in memory.
std::vector<Model> stateful_models() {
  std::vector<Model> models;
  for (const ArchSpec* arch : architectures_by_state()) {
    if (arch->recurrent == MixerKind::none && !arch->full_layers_differ()) continue;
    TinyModel tiny{.arch = arch, .context = 400};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    models.push_back(Model::load(folder / "hf"));
  }
  return models;
}

std::vector<float> logits_after(const Model& model, std::span<const TokenId> tokens) {
  Session session(model, {.threads = 1});
  session.prefill(tokens);
  return {session.logits().begin(), session.logits().end()};
}

bool same(Session& session, const Model& model) { return std::ranges::equal(session.logits(), logits_after(model, session.tokens())); }

}  // namespace

TEST_CASE("sessions with recurrent states are cut, forked, saved and shortened to the bits of fresh ones") {
  const std::vector<TokenId> tokens = some_tokens(200);
  for (const Model& model : stateful_models()) {
    CAPTURE(std::string(model.config().arch->name));
    Session session(model, {.threads = 2});
    session.prefill(std::span(tokens).first(130));
    session.prefill(std::span(tokens).subspan(130));
    CHECK(same(session, model));
    Session other = session.fork();
    for (const std::int64_t left : {190, 140, 97, 64, 20, 1}) {
      CAPTURE(left);
      session.truncate(left);
      CHECK(same(session, model));
      session.prefill(std::span(tokens).first(15));
      CHECK(same(session, model));
    }
    other.prefill(std::span(tokens).first(3));
    CHECK(same(other, model));
    // Keys and values stay what they were with the removed tokens before them; recurrent models read all again.
    if (model.config().arch->recurrent != MixerKind::none) {
      other.remove(40, 90);
      CHECK(other.tokens().size() == 153);
      CHECK(same(other, model));
    }
    std::string saved;
    other.save_to([&](std::span<const std::byte> bytes) { saved.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); });
    Session restored = Session::restore(model, std::as_bytes(std::span(saved)));
    CHECK(restored.tokens() == other.tokens());
    restored.prefill(std::span(tokens).first(7));
    CHECK(same(restored, model));
    other.clear();
    other.prefill(std::span(tokens).first(33));
    CHECK(same(other, model));
  }
}

TEST_CASE("guesses and batches leave the text of models with recurrent states as it is") {
  // What repeats is guessed, rightly and wrongly.
  std::vector<TokenId> prompt;
  for (int i = 0; i < 5; ++i) {
    const std::vector<TokenId> once = some_tokens(12);
    prompt.insert(prompt.end(), once.begin(), once.end());
  }
  for (const Model& model : stateful_models()) {
    CAPTURE(std::string(model.config().arch->name));
    const auto generate = [&](Session& session, Speculation speculation) {
      const GenerateOptions options{.max_tokens = 60, .sampling = {.temperature = 0.8f, .seed = 7}, .ignore_end = true, .speculation = speculation};
      for (const std::string_view piece : session.stream(prompt, options)) (void)piece;
      return session.tokens();
    };
    Session plain(model, {.threads = 1}), guessing(model, {.threads = 1});
    const std::vector<TokenId> expected = generate(plain, {});
    CHECK(generate(guessing, {.lookup = 8}) == expected);
    CHECK(same(guessing, model));

    Session a(model, {.threads = 2}), b(model, {.threads = 2});
    const std::vector<TokenId> shorter = some_tokens(45);
    const std::vector<Prompt> prompts{{&a, prompt}, {&b, shorter}};
    prefill(prompts);
    CHECK(same(a, model));
    CHECK(same(b, model));
  }
}

TEST_CASE("a prompt that goes on in another way is not read again, however long the reply to it was") {
  for (const Model& model : stateful_models()) {
    CAPTURE(std::string(model.config().arch->name));
    Scheduler scheduler(Engine(model, {.threads = 2}), {.parallel = 1});
    std::vector<TokenId> reply;
    const auto run = [&](const std::vector<TokenId>& prompt, std::int64_t count) {
      TextRequest request{.prompts = {prompt}};
      request.generate = {.max_tokens = count, .sampling = {.temperature = 0.9f, .seed = 3}, .ignore_end = true};
      std::promise<TextStats> ended;
      reply.clear();
      (void)scheduler.submit(request, [&](const TextUpdate& update) {
        for (const DrawnToken& token : update.tokens) reply.push_back(token.id);
        if (update.end != TextEnd::running) ended.set_value(update.stats);
      });
      return ended.get_future().get();
    };
    for (const int length : {97, 128, 130}) {
      CAPTURE(length);
      std::vector<TokenId> prompt = some_tokens(length);
      (void)run(prompt, 230);
      prompt.push_back(reply.front() == 5 ? 6 : 5);
      CHECK(run(prompt, 40).reused_tokens == length);
      Session fresh(model, {.threads = 1});
      TextRange range = fresh.stream(std::span<const TokenId>(prompt), {.max_tokens = 40, .sampling = {.temperature = 0.9f, .seed = 3}, .ignore_end = true});
      (void)range.text();
      CHECK(range.tokens() == reply);
    }
  }
}

}  // namespace bantam::test
