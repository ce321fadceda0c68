// Loading models and saving them as native files.
#include "bantam/model/model.hpp"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "bantam/core/cpu.hpp"
#include "bantam/core/names.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/model/native_file.hpp"
#include "bantam/model/residency.hpp"
#include "bantam/model/roles.hpp"
#include "io/memory_file.hpp"
#include "io/stream_hash.hpp"

namespace bantam::inline v0 {

struct Model::Data {
  std::shared_ptr<const ModelWeights> weights;
  Checkpoint checkpoint;
  std::optional<Residency> residency;  ///< of one that is not in memory whole
  mutable std::once_flag fingerprint_known;
  mutable std::uint64_t fingerprint = 0;

  Data(std::shared_ptr<const ModelWeights> loaded, Checkpoint of, std::optional<Residency> kept)
      : weights(std::move(loaded)), checkpoint(std::move(of)), residency(std::move(kept)) {}
};

namespace {

/// 0: nobody knows, or the file's own pages are used.
std::int64_t free_for_weights(WeightMemory memory) { return memory == WeightMemory::mapped ? 0 : available_memory() / 8 * 7; }

/// What is hashed on its own: some bytes in memory, or some of a matrix that is not there, which is read part by part, once its turn comes.
struct HashedPiece {
  std::span<const std::byte> bytes = {};
  std::shared_ptr<const MatrixSource> source = nullptr;
  std::int64_t begin = 0, end = 0;

  [[nodiscard]] std::uint64_t hash() const {
    StreamHash hash;
    hash.add(bytes);
    if (source != nullptr) source->for_each_part(begin, end, Reading::direct, [&](std::span<const std::byte> part) { hash.add(part); });
    return hash.value();
  }
};

/// Of everything that decides what the model computes and how it reads text.
std::uint64_t fingerprint_of(const Checkpoint& checkpoint) {
  // Pieces, so that all cores help and the result does not depend on how many there are.
  constexpr std::int64_t piece = std::int64_t{16} << 20;
  std::vector<HashedPiece> pieces;
  const auto for_pieces = [](std::int64_t bytes, auto&& f) {
    std::int64_t at = 0;
    for (; bytes - at > piece; at += piece) f(at, piece);
    f(at, bytes - at);
  };
  const auto add = [&](std::span<const std::byte> bytes) {
    for_pieces(std::ssize(bytes), [&](std::int64_t at, std::int64_t count) {
      pieces.push_back({.bytes = bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count))});
    });
  };
  std::string described = message(write_hf_config(checkpoint.config(), ""), '\n', checkpoint.tokenizer().to_json(), '\n');
  const ModelWeights& weights = *checkpoint.weights();
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    described += message(tensor.name, ' ', tensor.format().name, '\n');
    const WeightMatrix* matrix = matrix_of(weights, tensor);
    if (matrix == nullptr) {
      add(std::as_bytes(std::span(*vector_of(weights, tensor))));
      continue;
    }
    if (matrix->empty()) {
      // Whoever is done with it last gives back what reading has left behind.
      const std::shared_ptr<const MatrixSource> source(tensor.source.get(), [](const MatrixSource* read) { read->drop(); });
      for_pieces(tensor.format().matrix_bytes(tensor.rows, tensor.columns), [&](std::int64_t at, std::int64_t count) {
        pieces.push_back({.source = source, .begin = at, .end = at + count});
      });
    } else {
      add({matrix->view().data, static_cast<std::size_t>(matrix->bytes())});
    }
    const auto& order = matrix->empty() ? tensor.order() : matrix->order();
    if (order != nullptr) add(std::as_bytes(std::span(*order)));
  }
  add(std::as_bytes(std::span(described)));
  std::vector<std::uint64_t> hashes(pieces.size());
  parallel_for(std::ssize(pieces), 1, [&](Range range) {
    for (auto i = static_cast<std::size_t>(range.begin); i < static_cast<std::size_t>(range.end); ++i) {
      hashes[i] = pieces[i].hash();
      pieces[i].source.reset();
    }
  });
  return XXH3_64bits(hashes.data(), hashes.size() * sizeof hashes[0]);
}

/// How weights are read of which so many bytes are to be in memory. Through the system's page cache, which keeps the file for who asks for it next, unless
/// it has no room for it beside them: then it would only push out what others have there.
Reading reading_of(WeightMemory memory, const Checkpoint& checkpoint, std::int64_t wanted, bool is_bounded) {
  switch (memory) {
    case WeightMemory::mapped: return Reading::mapped;
    case WeightMemory::direct: return Reading::direct;
    case WeightMemory::huge_pages: return Reading::buffered;
    case WeightMemory::automatic: break;
  }
  const std::int64_t free = available_memory();
  const bool has_room = free == 0 || checkpoint.stored_bytes() + wanted <= free;
  return is_bounded || !has_room ? Reading::direct : Reading::buffered;
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
  LoadOptions of_file = options;
  // Else all of the file would stay in memory for a table of it.
  if (options.memory == WeightMemory::automatic) of_file.memory = WeightMemory::huge_pages;
  try {
    return load(file.path(), of_file);
  } catch (const Error& error) {
    // The name that the bytes have for now says nothing to anyone.
    std::string line = error.what();
    const std::string name = file.path().string();
    for (auto at = line.find(name); at != std::string::npos; at = line.find(name)) line.replace(at, name.size(), "model in memory");
    throw Error(error.code(), line);
  }
}

Model Model::from_checkpoint(const Checkpoint& checkpoint, const LoadOptions& options) {
  if (options.memory_limit < 0) fail(Errc::invalid_argument, "memory_limit: expected 0 (what is free) or bytes, found ", options.memory_limit);
  if (!options.device_map.empty() && options.memory == WeightMemory::mapped) fail(Errc::invalid_argument, "device_map: expected weights that are read, found mapped ones");
  std::optional<Residency> residency;
  const std::int64_t limit = options.memory_limit > 0 ? options.memory_limit : free_for_weights(options.memory);
  const auto pinned_bytes = [&] { return residency ? residency->pinned_bytes : bytes_in_memory(checkpoint); };
  if (checkpoint.weights() == nullptr) {  // what is in memory as it is takes no more
    if (options.memory == WeightMemory::automatic || options.memory == WeightMemory::mapped) residency = residency_with_room(checkpoint);
    if (!options.device_map.empty()) {
      // Where nothing bounds it there is room for all experts.
      constexpr std::int64_t most = Residency::no_limit - 1;
      residency = residency_of(checkpoint, limit > 0 ? std::min(limit, most) : most, &options.device_map);
    } else if (limit > 0 && pinned_bytes() > limit) {
      residency = residency_of(checkpoint, limit);
    }
    if (residency && residency->keeps_all()) residency.reset();
    if (residency && !residency->fits()) {
      fail(Errc::out_of_memory, "memory: ", checkpoint.path().string(), ": expected at least ", residency->least, " bytes for weights, found ",
           options.memory_limit > 0 ? "a limit of " : "room for ", residency->limit);
    }
    if (!options.device_map.empty() && !options.device_map.has_disk()) residency.reset();
  }
  const Reading reading = reading_of(options.memory, checkpoint, pinned_bytes(), residency && residency->is_bounded());
  ModelWeights weights = load_weights(checkpoint, reading, options.progress, residency ? &*residency : nullptr);
  if (options.verify) check_hashes(checkpoint, weights);
  return with(checkpoint, std::move(weights), checkpoint.recipe(), checkpoint.stored_bytes(), std::move(residency));
}

Model Model::from_weights(const Checkpoint& checkpoint, ModelWeights weights, std::string recipe_json) {
  std::optional<Residency> residency;
  // A table that they leave in the file is looked up there.
  for (const WeightMatrix* table : {&weights.per_layer_embedding, &weights.ngram_embedding}) {
    if (table->rows() > 0 && table->empty()) residency = residency_with_room(checkpoint);
  }
  return with(checkpoint, std::move(weights), std::move(recipe_json), 0, std::move(residency));
}

Model Model::with(const Checkpoint& checkpoint, ModelWeights weights, std::string recipe_json, std::int64_t stored_bytes, std::optional<Residency> residency) {
  complete(weights, checkpoint.config());
  const auto shared = std::make_shared<const ModelWeights>(std::move(weights));
  Checkpoint held = Checkpoint::in_memory(checkpoint, shared, std::move(recipe_json));
  held.note_stored_bytes(stored_bytes);
  return Model(std::make_shared<const Data>(shared, std::move(held), std::move(residency)));
}

Model Model::with_experts(std::int64_t used) const {
  ModelConfig config = this->config();
  std::int64_t most = 0;
  for (const LayerSpec& spec : config.specs) {
    if (spec.is_sparse()) most = most == 0 ? spec.experts : std::min(most, spec.experts);
  }
  // What is left of the groups that a token's experts are taken from.
  most = most / config.router.groups * config.router.groups_used;
  if (used < 1 || used > most) {
    fail(Errc::invalid_argument, "experts: expected ", most == 0 ? message("a mixture of experts") : message("1 to ", most, " a token"), ", found ",
         most == 0 ? message(config.arch->name, ", which is none") : message(used));
  }
  config.router.used = used;
  return with(config);
}

Model Model::with_cold_experts(nn::ColdExperts cold) const {
  ModelConfig config = this->config();
  if (!config.has_experts()) fail(Errc::invalid_argument, "cold experts: expected a mixture of experts, found ", config.arch->name, ", which is none");
  config.router.cold = cold;
  static_cast<void>(nn::Router(config.router));  // checks
  return with(config);
}

Model Model::with(const ModelConfig& config) const {
  std::vector<std::int64_t> layers(static_cast<std::size_t>(config.layers));
  std::iota(layers.begin(), layers.end(), 0);
  Checkpoint held = Checkpoint::in_memory(data_->checkpoint, config, layers, data_->weights, data_->checkpoint.recipe());
  held.note_stored_bytes(data_->checkpoint.stored_bytes());
  return Model(std::make_shared<const Data>(data_->weights, std::move(held), data_->residency));
}

const ModelConfig& Model::config() const noexcept { return data_->checkpoint.config(); }
const ModelWeights& Model::weights() const noexcept { return *data_->weights; }
const Tokenizer& Model::tokenizer() const noexcept { return data_->checkpoint.tokenizer(); }
std::uint64_t Model::fingerprint() const {
  std::call_once(data_->fingerprint_known, [this] { data_->fingerprint = fingerprint_of(checkpoint()); });
  return data_->fingerprint;
}
const Checkpoint& Model::checkpoint() const noexcept { return data_->checkpoint; }
const Residency* Model::residency() const noexcept { return data_->residency ? &*data_->residency : nullptr; }

const CheckpointTensor* Model::find(std::string_view name) const noexcept {
  const auto at = std::ranges::find(tensors(), name, &CheckpointTensor::name);
  return at == tensors().end() ? nullptr : &*at;
}

void Model::save(const std::filesystem::path& path) const {
  const std::string& recipe = data_->checkpoint.recipe();
  NativeWriter writer(path, config(), tokenizer(), recipe.empty() ? "{}" : recipe, entries_in_memory(checkpoint()));
  for (const CheckpointTensor& tensor : tensors()) {
    if (tensor.is_matrix) {
      const WeightMatrix matrix = checkpoint().load_matrix(tensor, Reading::direct);
      writer.write({matrix.view().data, static_cast<std::size_t>(matrix.bytes())});
    } else {
      writer.write(std::as_bytes(std::span(*vector_of(weights(), tensor))));
    }
  }
  writer.commit();
}

}  // namespace bantam::inline v0
