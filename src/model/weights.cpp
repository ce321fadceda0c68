// Loading weights into their places.
#include "bantam/model/weights.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/core/memory.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/model/residency.hpp"
#include "bantam/model/roles.hpp"
#include "bantam/quant/formats.hpp"
#include "matrix_loader.hpp"

namespace bantam::inline v0 {

namespace {

/// The bias by distance that a layer of an architecture whose first have it reads.
std::int64_t layer_of_bias(const ModelConfig& config, std::int64_t layer) noexcept {
  return !config.arch->shares_bias ? layer : layer < config.encoder_layers ? 0 : config.encoder_layers;
}

}  // namespace

double feed_forward_scale(const ModelConfig& config, const LayerWeights& layer) noexcept {
  const bool averages = config.arch->averages_shared && !layer.mlp.down.empty() && !layer.experts.experts.empty();
  return config.scales.down * (averages ? 0.5 : 1);
}

void complete(ModelWeights& w, const ModelConfig& config) {
  // Also of one that is in a file alone.
  const auto bytes_of = [](const WeightMatrix& matrix) { return matrix.rows() == 0 ? 0 : matrix.format().matrix_bytes(matrix.rows(), matrix.columns()); };
  if (config.tied && config.has_head) w.head = w.embedding;
  w.streamed_bytes = w.head.bytes() + w.per_layer_projection.bytes() + w.stream_projection.bytes() + w.stream_unembedding.bytes() + w.head_streams_down.bytes() + w.head_streams_up.bytes();
  w.matrix_bytes = w.streamed_bytes + w.position_embedding.bytes() + w.encoder_position_embedding.bytes() + bytes_of(w.per_layer_embedding) + bytes_of(w.ngram_embedding) + (config.tied ? 0 : bytes_of(w.embedding));
  // Adds a layer's bytes; gives those that a token reads.
  const auto count = [&](const LayerWeights& layer) {
    std::int64_t of_experts = 0, of_all = 0;
    for_each_matrix(layer, [&](const TensorId& id, const WeightMatrix& matrix) { (id.expert >= 0 ? of_experts : of_all) += bytes_of(matrix); });
    const auto experts = std::max<std::int64_t>(1, std::ssize(layer.experts.experts));
    w.matrix_bytes += of_all + of_experts;
    return of_all + of_experts / experts * config.router.used;
  };
  for (std::int64_t i = 0; i < std::ssize(w.layers); ++i) {
    LayerWeights& layer = w.layers[static_cast<std::size_t>(i)];
    if (config.arch->shares_bias && layer.attention.relative_bias.empty()) layer.attention.relative_bias = w.layers[static_cast<std::size_t>(layer_of_bias(config, i))].attention.relative_bias;
    const std::int64_t bytes = count(layer);
    // An encoder's, and what reads what it made, work once for a text.
    if (i >= config.encoder_layers) w.streamed_bytes += bytes - bytes_of(layer.cross.k) - bytes_of(layer.cross.v);
  }
  for (const LayerWeights& layer : w.drafting) count(layer);
}

void make_room(LayerWeights& layer, const LayerSpec& spec) {
  layer.mlp.limit = spec.mlp_limit;
  layer.mlp.gate_cutoff = spec.gate_cutoff;
  layer.experts.experts.resize(static_cast<std::size_t>(spec.experts));
  for (nn::MlpWeights& expert : layer.experts.experts) expert.limit = spec.expert_limit;
}

void make_room(ModelWeights& weights, const ModelConfig& config) {
  for (const LayerSpec& spec : config.specs) make_room(weights.layers.emplace_back(), spec);
  for (const LayerSpec& spec : config.drafting) make_room(weights.drafting.emplace_back(), spec);
}

namespace {

/// Whether experts are chosen by it.
bool chooses(const CheckpointTensor& tensor) noexcept {
  constexpr Role others[] = {Role::router_bias, Role::selection_bias, Role::router_scale, Role::expert_scale};
  return info_of(tensor.role).is_widened() || std::ranges::find(others, tensor.role) != std::end(others);
}

/// A number that is none would send tokens anywhere, and nothing else would tell.
void check_choices(const Checkpoint& checkpoint, const CheckpointTensor& tensor, std::span<const float> values) {
  const auto wrong = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (wrong == values.end()) return;
  const std::int64_t at = wrong - values.begin();
  fail(Errc::corrupt, checkpoint.path().string(), checkpoint.path().empty() ? "" : ": ", tensor.tensor_name(), ": expected finite numbers, found ", *wrong, " at (",
       at / tensor.columns, ", ", at % tensor.columns, ")");
}

/// Loads a tensor into its place: one of the two; neither, where the config carries it.
void load_tensor(const Checkpoint& checkpoint, const CheckpointTensor& tensor, Reading reading, StorageArena* arena, WeightMatrix* matrix, std::vector<float>* vector) {
  if (matrix != nullptr && detail::is_widened(tensor)) {
    *matrix = WeightMatrix::quantize(checkpoint.load_matrix(tensor, reading).dequantize(), format_info<F32Format>());
  } else if (matrix != nullptr) {
    *matrix = checkpoint.load_matrix(tensor, reading, arena);
  }
  if (vector != nullptr) *vector = checkpoint.load_vector(tensor);
  if (chooses(tensor)) check_choices(checkpoint, tensor, matrix != nullptr ? matrix->dequantize().span() : std::span<const float>(*vector));
}

}  // namespace

LayerWeights load_block(const Checkpoint& checkpoint, std::int64_t layer) {
  LayerWeights block;
  make_room(block, checkpoint.config().layer(layer));
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const bool shared = tensor.role == Role::relative_bias && tensor.layer == layer_of_bias(checkpoint.config(), layer);
    if (tensor.layer == layer || shared) load_tensor(checkpoint, tensor, Reading::buffered, nullptr, matrix_of(block, tensor), vector_of(block, tensor));
  }
  return block;
}

ModelWeights load_weights(const Checkpoint& checkpoint, Reading reading, const LoadProgress& progress, const Residency* residency) {
  ModelWeights w;
  make_room(w, checkpoint.config());
  const auto stays = [&](const CheckpointTensor& tensor) { return residency == nullptr || residency->keeps(tensor); };
  // Without what has to be looked at when it is there.
  const auto has_pieces = [&](const CheckpointTensor& tensor) { return tensor.is_matrix && !chooses(tensor) && tensor.source->has_pieces(reading); };
  std::int64_t done = 0, total = 0, of_pieces = 0;
  std::size_t room = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (!stays(tensor)) continue;
    total += tensor.stored_bytes();
    if (has_pieces(tensor)) of_pieces += tensor.stored_bytes();
    if (tensor.is_matrix && !detail::is_widened(tensor)) room += static_cast<std::size_t>(detail::room_of(tensor));
  }
  StorageArena arena(room);
  {
    // Asked inside of large tensors, too.
    const CancelScope scope([&] { return progress && !progress(done, total); });
    MatrixLoader loader(reading, of_pieces, arena, [&](const CheckpointTensor& tensor) { done += tensor.stored_bytes(); });
    for (const CheckpointTensor& tensor : checkpoint.tensors()) {
      check_cancelled();
      WeightMatrix* matrix = matrix_of(w, tensor);
      if (!stays(tensor)) {
        *matrix = WeightMatrix(tensor.format(), tensor.rows, tensor.columns, nullptr, tensor.order());
      } else if (has_pieces(tensor)) {
        loader.begin(tensor, *matrix);
      } else {
        load_tensor(checkpoint, tensor, reading, &arena, matrix, vector_of(w, tensor));
        done += tensor.stored_bytes();
      }
    }
    loader.finish();
  }
  if (progress) (void)progress(total, total);
  complete(w, checkpoint.config());
  return w;
}

}  // namespace bantam::inline v0
