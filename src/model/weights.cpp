// Loading weights into their places.
#include "bantam/model/weights.hpp"

#include "bantam/core/parallel.hpp"
#include "bantam/model/roles.hpp"

namespace bantam::inline v0 {

void complete(ModelWeights& w, bool tied) noexcept {
  if (tied) w.head = w.embedding;
  w.streamed_bytes = w.head.bytes();
  for (const LayerWeights& layer : w.layers) for_each_matrix(layer, [&](Role, const WeightMatrix& matrix) { w.streamed_bytes += matrix.bytes(); });
  w.matrix_bytes = w.streamed_bytes + (tied ? 0 : w.embedding.bytes());
}

namespace {

/// Loads a tensor into its place: one of the two; neither, where the config carries it.
void load_tensor(const Checkpoint& checkpoint, const CheckpointTensor& tensor, Reading reading, WeightMatrix* matrix, std::vector<float>* vector) {
  if (matrix != nullptr) *matrix = checkpoint.load_matrix(tensor, reading);
  if (vector != nullptr) *vector = checkpoint.load_vector(tensor);
}

}  // namespace

LayerWeights load_block(const Checkpoint& checkpoint, std::int64_t layer) {
  LayerWeights block;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.layer == layer) load_tensor(checkpoint, tensor, Reading::buffered, matrix_of(block, tensor.role), vector_of(block, tensor.role));
  }
  return block;
}

ModelWeights load_weights(const Checkpoint& checkpoint, Reading reading, const LoadProgress& progress) {
  ModelWeights w;
  w.layers.resize(static_cast<std::size_t>(checkpoint.config().layers));
  std::int64_t done = 0, total = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) total += tensor.stored_bytes();
  {
    // Asked inside of large tensors, too.
    const CancelScope scope([&] { return progress && !progress(done, total); });
    for (const CheckpointTensor& tensor : checkpoint.tensors()) {
      check_cancelled();
      load_tensor(checkpoint, tensor, reading, matrix_of(w, tensor.role, tensor.layer), vector_of(w, tensor.role, tensor.layer));
      done += tensor.stored_bytes();
    }
  }
  if (progress) (void)progress(total, total);
  complete(w, checkpoint.config().tied);
  return w;
}

}  // namespace bantam::inline v0
