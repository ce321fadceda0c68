// Loading models and saving them as native files.
#include "bantam/model/model.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "bantam/model/native_file.hpp"
#include "io/memory_file.hpp"

namespace bantam::inline v0 {

struct Model::Data {
  ModelConfig config;
  ModelWeights weights;
  Tokenizer tokenizer;
  std::vector<CheckpointTensor> tensors;  ///< names and order for save(); their entries are not touched again
  std::string recipe;
  std::uint64_t fingerprint = 0;
};

namespace {

// Below this the bandwidth that huge pages win is not worth reading the file.
constexpr std::int64_t huge_page_threshold = 64 << 20;

std::uint64_t fingerprint_of(const ModelConfig& config, const ModelWeights& weights) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, config.arch->name.data(), config.arch->name.size());
  const std::int64_t sizes[] = {config.dim, config.layers, config.heads,  config.kv_heads,           config.head_dim,
                                config.ffn, config.vocab,  config.window, config.first_window_layer, static_cast<std::int64_t>(config.gate)};
  XXH3_64bits_update(&state, sizes, sizeof sizes);
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
  auto data = std::make_shared<Data>(Data{.config = checkpoint.config(),
                                          .weights = load_weights(checkpoint, reading_of(checkpoint, options.memory)),
                                          .tokenizer = checkpoint.tokenizer(),
                                          .tensors = checkpoint.tensors(),
                                          .recipe = checkpoint.recipe(),
                                          .fingerprint = 0});
  for (CheckpointTensor& tensor : data->tensors) {
    tensor.entry = nullptr;
    tensor.packed = nullptr;
  }
  data->fingerprint = fingerprint_of(data->config, data->weights);
  return Model(std::move(data));
}

const ModelConfig& Model::config() const noexcept { return data_->config; }
const ModelWeights& Model::weights() const noexcept { return data_->weights; }
const Tokenizer& Model::tokenizer() const noexcept { return data_->tokenizer; }
std::uint64_t Model::fingerprint() const noexcept { return data_->fingerprint; }

const std::vector<CheckpointTensor>& Model::tensors() const noexcept { return data_->tensors; }

const CheckpointTensor* Model::find(std::string_view name) const noexcept {
  const auto at = std::ranges::find(data_->tensors, name, &CheckpointTensor::name);
  return at == data_->tensors.end() ? nullptr : &*at;
}

Model Model::with_weights(ModelWeights weights, std::string recipe_json) const {
  auto data = std::make_shared<Data>(Data{.config = data_->config,
                                          .weights = std::move(weights),
                                          .tokenizer = data_->tokenizer,
                                          .tensors = data_->tensors,
                                          .recipe = std::move(recipe_json),
                                          .fingerprint = 0});
  data->fingerprint = fingerprint_of(data->config, data->weights);
  return Model(std::move(data));
}

void Model::save(const std::filesystem::path& path) const {
  ModelWeights weights = data_->weights;  // handles; the bytes are shared
  std::vector<NativeWriter::Entry> entries;
  for (const CheckpointTensor& tensor : data_->tensors) {
    const WeightMatrix* matrix = matrix_of(weights, tensor.role, tensor.layer);
    if (matrix == nullptr && vector_of(weights, tensor.role, tensor.layer) == nullptr) continue;
    entries.push_back({tensor.tensor_name(), matrix != nullptr ? &matrix->format() : nullptr, tensor.rows, tensor.columns,
                       matrix != nullptr ? matrix->order().get() : nullptr});
  }
  NativeWriter writer(path, data_->config, data_->tokenizer, data_->recipe.empty() ? "{}" : data_->recipe, entries);
  for (const CheckpointTensor& tensor : data_->tensors) {
    if (const WeightMatrix* matrix = matrix_of(weights, tensor.role, tensor.layer)) {
      writer.write({matrix->view().data, static_cast<std::size_t>(matrix->bytes())});
    } else if (const std::vector<float>* vector = vector_of(weights, tensor.role, tensor.layer)) {
      writer.write(std::as_bytes(std::span(*vector)));
    }
  }
  writer.commit();
}

}  // namespace bantam::inline v0
