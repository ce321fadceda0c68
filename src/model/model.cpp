// Loading models and saving them as native files.
#include "bantam/model/model.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "bantam/core/names.hpp"
#include "bantam/model/native_file.hpp"
#include "io/memory_file.hpp"

namespace bantam::inline v0 {

struct Model::Data {
  std::shared_ptr<const ModelWeights> weights;
  Checkpoint checkpoint;
  std::uint64_t fingerprint;
};

namespace {

std::uint64_t fingerprint_of(const ModelConfig& config, const ModelWeights& weights) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, config.arch->name.data(), config.arch->name.size());
  const std::int64_t sizes[] = {config.dim, config.layers, config.heads,  config.kv_heads,           config.head_dim,
                                config.ffn, config.vocab,  config.window, config.first_window_layer, static_cast<std::int64_t>(config.gate)};
  XXH3_64bits_update(&state, sizes, sizeof sizes);
  XXH3_64bits_update(&state, config.shapes.data(), config.shapes.size() * sizeof(LayerShape));
  const nn::Rope rope(config.rope);
  const double reals[] = {config.norm_eps, rope.magnitude()};
  XXH3_64bits_update(&state, reals, sizeof reals);
  XXH3_64bits_update(&state, rope.frequencies().data(), rope.frequencies().size_bytes());
  // The first panel of every matrix: enough to tell models apart without reading them.
  const auto add = [&](const WeightMatrix& w) {
    const auto id = static_cast<std::uint16_t>(w.format().id);
    XXH3_64bits_update(&state, &id, sizeof id);
    XXH3_64bits_update(&state, w.view().data, static_cast<std::size_t>(std::min<std::int64_t>(4096, w.format().panel_bytes(w.columns()))));
  };
  add(weights.embedding);
  for (const LayerWeights& layer : weights.layers) {
    for (const WeightMatrix* w : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) add(*w);
  }
  return XXH3_64bits_digest(&state);
}

Reading reading_of(WeightMemory memory) {
  switch (memory) {
    case WeightMemory::mapped: return Reading::mapped;
    case WeightMemory::direct: return Reading::direct;
    case WeightMemory::automatic:
    case WeightMemory::huge_pages: break;
  }
  return Reading::buffered;
}

}  // namespace

WeightMemory find_weight_memory(std::string_view name) {
  constexpr std::string_view names[] = {"automatic", "mapped", "huge_pages", "direct"};
  return static_cast<WeightMemory>(find_name("memory", name, names));
}

Model Model::load(const std::filesystem::path& path, const LoadOptions& options) {
  return from_checkpoint(Checkpoint::open(path, {.gptq_zero = options.gptq_zero}), options);
}

Model Model::load_from(ByteSource source, const LoadOptions& options) {
  const detail::MemoryFile file(source);
  try {
    return load(file.path(), options);
  } catch (const Error& error) {
    // The name that the bytes have for now says nothing to anyone.
    std::string line = error.what();
    const std::string name = file.path().string();
    for (auto at = line.find(name); at != std::string::npos; at = line.find(name)) line.replace(at, name.size(), "model in memory");
    throw Error(error.code(), line);
  }
}

Model Model::from_checkpoint(const Checkpoint& checkpoint, const LoadOptions& options) {
  return with(checkpoint, load_weights(checkpoint, reading_of(options.memory), options.progress), checkpoint.recipe(),
              checkpoint.stored_bytes());
}

Model Model::from_weights(const Checkpoint& checkpoint, ModelWeights weights, std::string recipe_json) {
  return with(checkpoint, std::move(weights), std::move(recipe_json), 0);
}

Model Model::with(const Checkpoint& checkpoint, ModelWeights weights, std::string recipe_json, std::int64_t stored_bytes) {
  complete(weights, checkpoint.config().tied);
  const auto shared = std::make_shared<const ModelWeights>(std::move(weights));
  Data data{.weights = shared,
            .checkpoint = Checkpoint::in_memory(checkpoint, shared, std::move(recipe_json)),
            .fingerprint = fingerprint_of(checkpoint.config(), *shared)};
  data.checkpoint.note_stored_bytes(stored_bytes);
  return Model(std::make_shared<const Data>(std::move(data)));
}

const ModelConfig& Model::config() const noexcept { return data_->checkpoint.config(); }
const ModelWeights& Model::weights() const noexcept { return *data_->weights; }
const Tokenizer& Model::tokenizer() const noexcept { return data_->checkpoint.tokenizer(); }
std::uint64_t Model::fingerprint() const noexcept { return data_->fingerprint; }
const Checkpoint& Model::checkpoint() const noexcept { return data_->checkpoint; }

const CheckpointTensor* Model::find(std::string_view name) const noexcept {
  const auto at = std::ranges::find(tensors(), name, &CheckpointTensor::name);
  return at == tensors().end() ? nullptr : &*at;
}

void Model::save(const std::filesystem::path& path) const {
  const std::string& recipe = data_->checkpoint.recipe();
  NativeWriter writer(path, config(), tokenizer(), recipe.empty() ? "{}" : recipe, entries_in_memory(checkpoint()));
  for (const CheckpointTensor& tensor : tensors()) {
    if (const WeightMatrix* matrix = matrix_of(weights(), tensor.role, tensor.layer)) {
      writer.write({matrix->view().data, static_cast<std::size_t>(matrix->bytes())});
    } else {
      writer.write(std::as_bytes(std::span(*vector_of(weights(), tensor.role, tensor.layer))));
    }
  }
  writer.commit();
}

}  // namespace bantam::inline v0
