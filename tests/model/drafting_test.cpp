// Layers that guess the token after the next one: every architecture whose files have them.
#include "bantam/model/residency.hpp"
#include "limits.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

constexpr double drafting_tolerance = 1e-4;  // of f32 sums in a few layers; logits are of size 1

std::vector<const ArchSpec*> drafting_architectures() {
  std::vector<const ArchSpec*> all;
  std::ranges::copy_if(architectures, std::back_inserter(all), [](const ArchSpec* arch) { return arch->may_draft(); });
  return all;
}

/// What the layer that drafts makes of each token but the last, read `at_once` by `at_once`.
std::vector<float> drafted(const Model& model, const std::vector<TokenId>& tokens, std::size_t at_once = 1) {
  Engine engine(model, {.threads = 2});
  nn::SequenceState state = engine.new_state("f32"), draft_state = engine.new_draft_state("f32");
  const auto dim = static_cast<std::size_t>(model.config().dim), vocab = static_cast<std::size_t>(model.config().vocab);
  std::vector<float> states(tokens.size() * dim), out, logits(vocab), next(dim);
  const Engine::Sequence all{.tokens = tokens, .state = &state, .first_output = static_cast<std::int64_t>(tokens.size()), .states = states};
  engine.run({&all, 1}, [](std::int64_t, std::int64_t, std::span<const float>) {}, [](std::int64_t) { return true; });
  for (std::size_t first = 0; first + 1 < tokens.size(); first += at_once) {
    const std::size_t count = std::min(at_once, tokens.size() - 1 - first);
    engine.draft(draft_state, std::span(tokens).subspan(first + 1, count), std::span(states).subspan(first * dim, count * dim), logits, next);
    out.insert(out.end(), logits.begin(), logits.end());
  }
  return out;
}

TEST_CASE("layers that draft compute the reference's logits, the same from every container") {
  std::size_t turn = 0;
  for (const ArchSpec* arch : drafting_architectures()) {
    ++turn;
    for (const bool tied : {false, true}) {
      if (quick() && tied != (turn % 2 == 0)) continue;
      CAPTURE(std::string(arch->name));
      CAPTURE(tied);
      TinyModel tiny{.arch = arch, .tied = tied, .drafts = true};
      tiny.make();
      const TemporaryFolder folder;
      tiny.write_folder(folder / "hf");
      tiny.write_gguf(folder / "m.gguf");
      const Model hf = Model::load(folder / "hf");
      REQUIRE(hf.config().drafting.size() == 1);
      hf.save(folder / "m.bantam");
      const auto tokens = some_tokens(40);  // more than a window, and than a chunk of recurrent layers
      const std::vector<float> logits = drafted(hf, tokens);
      CHECK(distance(logits, tiny.reference().drafted_logits(tokens)) < drafting_tolerance);
      CHECK(drafted(Model::load(folder / "m.gguf"), tokens) == logits);
      CHECK(drafted(Model::load(folder / "m.bantam"), tokens) == logits);
      // Its embedding may be looked up in the file.
      for (const char* name : {"hf", "m.gguf", "m.bantam"}) {
        const Residency least = residency_of(Checkpoint::open(folder / name), 0);
        CHECK((least.table_bytes == 0) == tied);
        CHECK(drafted(Model::load(folder / name, {.memory_limit = least.least}), tokens) == logits);
      }
      // Whatever is read at once, the last is the same.
      const std::vector<float> at_once = drafted(hf, tokens, 13);
      CHECK(std::equal(at_once.end() - tiny.vocab, at_once.end(), logits.end() - tiny.vocab));
      for (const char* part : {"draft.embedding_norm.weight", "draft.state_norm.weight", "draft.norm.weight"}) {
        CAPTURE(part);
        reference::Transformer without = tiny.reference();
        without.weights.erase(part);
        CHECK(distance(logits, without.drafted_logits(tokens)) > 10 * drafting_tolerance);
      }
    }
  }
}

TEST_CASE("layers that draft take no part in passes") {
  for (const ArchSpec* arch : drafting_architectures()) {
    CAPTURE(std::string(arch->name));
    TinyModel with{.arch = arch, .drafts = true};
    with.make();
    TinyModel without = with;
    without.sizes.drafting.clear();
    const std::int64_t layers = with.sizes.layers;
    std::erase_if(without.tensors, [&](const TinyTensor& t) { return t.gguf_name.starts_with(message("blk.", layers, ".")); });
    const TemporaryFolder folder;
    with.write_folder(folder / "with");
    without.write_folder(folder / "without");  // whose config still counts the layer
    const Model whole = Model::load(folder / "with"), trunk = Model::load(folder / "without");
    CHECK(trunk.config().drafting.empty());
    CHECK(whole.weights().streamed_bytes == trunk.weights().streamed_bytes);
    CHECK(whole.bytes() > trunk.bytes());
    CHECK(logits_of(whole, some_tokens()) == logits_of(trunk, some_tokens()));
    CHECK(error_of([&] { (void)Engine(trunk).new_draft_state(); }) == "mtp: expected a model with a layer that drafts, found one without");
  }
}

TEST_CASE("a layer that drafts is whole or not there") {
  for (const ArchSpec* arch : drafting_architectures()) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .drafts = true};
    tiny.make();
    const std::string name = name_in(tiny.sizes, arch->find(Role::draft_state_norm)->hf, {Role::draft_state_norm, tiny.sizes.layers});
    tiny.remove(name);
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    CHECK(error_of([&] { (void)Checkpoint::open(folder / "hf"); }).find(message("expected tensor ", name, ", found none of that name")) != std::string::npos);
  }
}

TEST_CASE("the engine refuses pairs that do not fit") {
  TinyModel tiny{.arch = &archs::qwen3_5, .drafts = true};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  Engine engine(Model::load(folder / "hf"));
  nn::SequenceState state = engine.new_draft_state();
  std::vector<float> logits(static_cast<std::size_t>(tiny.vocab)), next(static_cast<std::size_t>(tiny.dim)), states(static_cast<std::size_t>(2 * tiny.dim));
  const std::vector<TokenId> tokens{5, 6}, wrong{5, 99};
  engine.draft(state, tokens, states, logits, next);
  CHECK(state.tokens() == 2);
  CHECK(error_of([&] { engine.draft(state, wrong, states, logits, next); }) == "token id: expected 0 to 36, found 99");
  CHECK(error_of([&] { engine.draft(state, std::span(tokens).first(1), states, logits, next); }) == "mtp: expected states of 36 numbers for each of the tokens, found 72 numbers for 1");
  CHECK(error_of([&] { engine.draft(state, tokens, states, next, next); }) == "mtp: expected room for 37 logits and a state of 36, found 36 and 36");
  CHECK(state.tokens() == 2);
}

}  // namespace
}  // namespace bantam::test
