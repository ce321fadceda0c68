// Loading models and saving them as native files.
#include "bantam/model/model.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "bantam/model/native_file.hpp"

namespace bantam::inline v0 {

struct Model::Data {
  std::shared_ptr<const ModelWeights> weights;
  Checkpoint checkpoint;
  std::uint64_t fingerprint;
};

namespace {

// Below this the bandwidth that huge pages win is not worth reading the file.
constexpr std::int64_t huge_page_threshold = 64 << 20;

std::uint64_t fingerprint_of(const ModelConfig& config, const ModelWeights& weights) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  const std::string text = write_hf_config(config, "");
  XXH3_64bits_update(&state, text.data(), text.size());
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

Reading reading_of(const Checkpoint& checkpoint, WeightMemory memory) {
  switch (memory) {
    case WeightMemory::mapped: return Reading::mapped;
    case WeightMemory::huge_pages: return Reading::buffered;
    case WeightMemory::direct: return Reading::direct;
    case WeightMemory::automatic: break;
  }
  return checkpoint.file_bytes() < huge_page_threshold ? Reading::mapped : Reading::buffered;
}

}  // namespace

Model Model::load(const std::filesystem::path& path, const LoadOptions& options) {
  return from_checkpoint(Checkpoint::open(path, {.gptq_zero = options.gptq_zero}), options);
}

Model Model::from_checkpoint(const Checkpoint& checkpoint, const LoadOptions& options) {
  return from_weights(checkpoint, load_weights(checkpoint, reading_of(checkpoint, options.memory)), checkpoint.recipe());
}

Model Model::from_weights(const Checkpoint& checkpoint, ModelWeights weights, std::string recipe_json) {
  complete(weights, checkpoint.config().tied);
  const auto shared = std::make_shared<const ModelWeights>(std::move(weights));
  return Model(std::make_shared<const Data>(Data{.weights = shared,
                                                 .checkpoint = Checkpoint::in_memory(checkpoint, shared, std::move(recipe_json)),
                                                 .fingerprint = fingerprint_of(checkpoint.config(), *shared)}));
}

const ModelConfig& Model::config() const noexcept { return data_->checkpoint.config(); }
const ModelWeights& Model::weights() const noexcept { return *data_->weights; }
const Tokenizer& Model::tokenizer() const noexcept { return data_->checkpoint.tokenizer(); }
std::uint64_t Model::fingerprint() const noexcept { return data_->fingerprint; }
const Checkpoint& Model::checkpoint() const noexcept { return data_->checkpoint; }

void Model::save(const std::filesystem::path& path) const {
  std::vector<NativeWriter::Entry> entries;
  for (const CheckpointTensor& tensor : tensors()) entries.push_back({tensor.tensor_name(), tensor.native, tensor.rows, tensor.columns, tensor.order.get()});
  const std::string& recipe = data_->checkpoint.recipe();
  NativeWriter writer(path, config(), tokenizer(), recipe.empty() ? "{}" : recipe, entries);
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
