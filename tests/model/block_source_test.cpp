// Models whose layers come from elsewhere than memory, and sequences of embeddings.
#include "bantam/model/block_source.hpp"

#include "bantam/model/forward.hpp"
#include "bantam/nn/kv_state.hpp"
#include "limits.hpp"
#include "tiny_model.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

/// The embedding, the head and the final norm alone.
ModelWeights tables_of(const ModelWeights& weights) {
  ModelWeights tables = weights;
  tables.layers.clear();
  return tables;
}

constexpr auto yes = [](std::int64_t) { return true; };

/// The logits of all tokens of a sequence, read as a prompt and then token by token; of encoders the states, read at once.
std::vector<float> logits_by(Forward& forward, const ModelConfig& config, std::span<const TokenId> tokens, std::size_t prompt) {
  nn::SequenceState state = config.new_state("f32");
  std::vector<float> logits;
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t count = !config.arch->causal ? tokens.size() : at == 0 ? prompt : 1;
    SequenceInput input{tokens.subspan(at, count), &state, 0};
    if (config.has_source() && at == 0) input.source = tokens;
    forward.run({&input, 1}, [&](std::int64_t, std::int64_t, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); }, yes,
                config.has_head ? PassOutput::logits : PassOutput::state);
    at += count;
  }
  return logits;
}

/// Blocks of another source, as long as there is no fault in them.
class FaultyBlocks final : public BlockSource {
 public:
  FaultyBlocks(const ModelWeights& weights, std::int64_t fault) : all_(weights), fault_(fault) {}
  std::shared_ptr<const LayerWeights> acquire(std::int64_t layer) const override {
    if (layer == fault_) fail(Errc::io, "m.gguf: layer ", layer, ": the disk is gone");
    return all_.acquire(layer);
  }

 private:
  ResidentBlocks all_;
  std::int64_t fault_;
};

}  // namespace

TEST_CASE("layers that are read from their file when they are run give the bits of layers in memory") {
  for (const ArchSpec* arch : few_architectures()) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .layers = 4};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    for (const char* format : {"f32", "i4.g32", "q8"}) {
      if (quick() && format != std::string_view("i4.g32")) continue;
      CAPTURE(std::string(format));
      compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe::rtn(format));
      const Checkpoint checkpoint = Checkpoint::open(folder / "m.bantam");
      const Model model = Model::load(folder / "m.bantam", {.memory = WeightMemory::huge_pages});
      const ModelWeights tables = tables_of(model.weights());
      const FileBlocks blocks(checkpoint);
      const auto tokens = some_tokens(14);
      Forward resident(model.config(), model.weights(), 64, 2), streamed(model.config(), tables, blocks, 64, 2);
      const std::vector<float> expected = logits_by(resident, model.config(), tokens, 11);
      CHECK(logits_by(streamed, model.config(), tokens, 11) == expected);
      CHECK(logits_by(streamed, model.config(), tokens, 1) == expected);
    }
  }
}

TEST_CASE("a layer that was asked for and is not wanted is dropped, and one that cannot be read says so when it is wanted") {
  TinyModel tiny{.layers = 3};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe::rtn("q8"));
  const Checkpoint checkpoint = Checkpoint::open(folder / "m.bantam");
  const Model model = Model::load(folder / "m.bantam");
  const FileBlocks blocks(checkpoint);
  const auto same = [&](std::int64_t layer) {
    return blocks.acquire(layer)->attention.q.dequantize().span().front() == model.weights().layers[static_cast<std::size_t>(layer)].attention.q.dequantize().span().front();
  };
  blocks.prefetch(2);
  CHECK(same(0));
  blocks.prefetch(1);
  blocks.prefetch(1);
  CHECK(same(1));
  const auto held = blocks.acquire(2);
  CHECK(same(1));
  CHECK(!held->attention.q.empty());
}

TEST_CASE("states are as they were when a layer cannot be had in the middle of a pass") {
  TinyModel tiny{.layers = 3};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  const ModelWeights tables = tables_of(model.weights());
  const FaultyBlocks faulty(model.weights(), 2);
  Forward forward(model.config(), tables, faulty, 64, 2), whole(model.config(), model.weights(), 64, 2);
  nn::SequenceState state = model.config().new_state("f32");
  const auto tokens = some_tokens(6);
  const auto nothing = [](std::int64_t, std::int64_t, std::span<const float>) {};
  const SequenceInput first{std::span(tokens).first(4), &state, 4}, second{std::span(tokens).last(2), &state, 2};
  whole.run({&first, 1}, nothing, yes);
  CHECK(error_of([&] { forward.run({&second, 1}, nothing, yes); }) == "m.gguf: layer 2: the disk is gone");
  CHECK(state.tokens() == 4);
}

TEST_CASE("rows of the embedding in the place of tokens are those tokens, in any pieces and beside others") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    CAPTURE(std::string(arch->name));
    // Of tokens that are not there nobody can look per-layer embeddings up: such rows get those of token 0.
    TinyModel tiny{.arch = arch, .shares_values = true};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Model model = Model::load(folder / "hf");
    const std::int64_t dim = model.config().dim;
    auto tokens = some_tokens(9);
    // Where all models have them: tokens without a row of their own, which get the same; of n-grams the one that such rows count as.
    for (TokenId& id : tokens) id = model.config().ngrams.exist() ? static_cast<TokenId>(model.config().ngrams.stand_in()) : model.config().alternates_streams() ? static_cast<TokenId>(model.config().per_layer_tokens() + id % (model.config().vocab - model.config().per_layer_tokens())) : id;
    std::vector<float> rows(tokens.size() * static_cast<std::size_t>(dim));
    RowCodes scratch;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const auto row = std::span(rows).subspan(t * static_cast<std::size_t>(dim), static_cast<std::size_t>(dim));
      model.weights().embedding.read_row(tokens[t], row, scratch);
      for (float& x : row) x *= static_cast<float>(model.config().scales.embedding);
    }
    Engine engine(model, {.context = 64, .threads = 2});
    nn::SequenceState read = engine.new_state("f32"), given = engine.new_state("f32");
    std::vector<float> expected, found;
    const auto nothing = [](std::int64_t, std::int64_t, std::span<const float>) {};
    // Those of encoders come at once.
    const std::int64_t before = arch->causal ? 3 : 0;
    const std::span<const TokenId> source = model.config().has_source() ? std::span(tokens) : std::span<const TokenId>();
    const SequenceInput begin{.state = &given, .first_output = 3, .source = source, .embeddings = std::span(rows).first(static_cast<std::size_t>(before * dim))};
    if (before > 0) engine.run({&begin, 1}, nothing, yes);
    const SequenceInput parts[] = {{tokens, &read, 3, source}, {.state = &given, .first_output = 3 - before, .embeddings = std::span(rows).subspan(static_cast<std::size_t>(before * dim))}};
    engine.run(parts, [&](std::int64_t sequence, std::int64_t, std::span<const float> row) {
      (sequence == 0 ? expected : found).insert((sequence == 0 ? expected : found).end(), row.begin(), row.end());
    }, yes, model.config().has_head ? PassOutput::logits : PassOutput::state);
    CHECK(expected.size() == static_cast<std::size_t>(6 * (model.config().has_head ? model.config().vocab : dim)));
    CHECK(found == expected);
  }
}

TEST_CASE("embeddings of another width, or beside tokens, are refused") {
  TinyModel tiny;
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  Engine engine(Model::load(folder / "hf"), {.context = 8, .threads = 1});
  nn::SequenceState state = engine.new_state();
  const std::vector<float> rows(9 * 36);
  const std::vector<TokenId> token{1};
  const auto refused = [&](const SequenceInput& input) {
    return error_of([&] { engine.run({&input, 1}, [](std::int64_t, std::int64_t, std::span<const float>) {}, yes); });
  };
  CHECK(refused({.state = &state, .embeddings = std::span(rows).first(35)}) == "embeddings: expected rows of 36 numbers and no tokens, found 35 numbers and 0 tokens");
  CHECK(refused({.tokens = token, .state = &state, .embeddings = std::span(rows).first(36)}) == "embeddings: expected rows of 36 numbers and no tokens, found 36 numbers and 1 tokens");
  CHECK(refused({.state = &state, .embeddings = rows}) == "context: expected at most 8 tokens, 0 are held and 9 more were given");
  CHECK(state.tokens() == 0);
}
