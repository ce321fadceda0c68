// Loading weights into their places.
#include "bantam/model/weights.hpp"

#include "bantam/core/parallel.hpp"

namespace bantam::inline v0 {

WeightMatrix* matrix_of(ModelWeights& w, Role role, std::int64_t layer) noexcept {
  if (role == Role::embedding) return &w.embedding;
  if (role == Role::head) return &w.head;
  if (layer < 0) return nullptr;
  LayerWeights& l = w.layers[static_cast<std::size_t>(layer)];
  switch (role) {
    case Role::q: return &l.q;
    case Role::k: return &l.k;
    case Role::v: return &l.v;
    case Role::o: return &l.o;
    case Role::gate: return &l.gate;
    case Role::up: return &l.up;
    case Role::down: return &l.down;
    default: return nullptr;
  }
}

std::vector<float>* vector_of(ModelWeights& w, Role role, std::int64_t layer) noexcept {
  if (role == Role::final_norm) return &w.final_norm;
  if (layer < 0) return nullptr;
  LayerWeights& l = w.layers[static_cast<std::size_t>(layer)];
  switch (role) {
    case Role::attention_norm: return &l.attention_norm;
    case Role::ffn_norm: return &l.ffn_norm;
    case Role::q_norm: return &l.q_norm;
    case Role::k_norm: return &l.k_norm;
    case Role::q_bias: return &l.q_bias;
    case Role::k_bias: return &l.k_bias;
    case Role::v_bias: return &l.v_bias;
    case Role::o_bias: return &l.o_bias;
    default: return nullptr;
  }
}

const WeightMatrix* matrix_of(const ModelWeights& w, Role role, std::int64_t layer) noexcept {
  return matrix_of(const_cast<ModelWeights&>(w), role, layer);
}

const std::vector<float>* vector_of(const ModelWeights& w, Role role, std::int64_t layer) noexcept {
  return vector_of(const_cast<ModelWeights&>(w), role, layer);
}

void complete(ModelWeights& w, bool tied) noexcept {
  if (tied) w.head = w.embedding;
  w.streamed_bytes = w.head.bytes();
  for (const LayerWeights& l : w.layers) {
    for (const WeightMatrix* matrix : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}) w.streamed_bytes += matrix->bytes();
  }
  w.matrix_bytes = w.streamed_bytes + (tied ? 0 : w.embedding.bytes());
}

namespace {

/// Loads a tensor into the place of its role in layer `layer`.
void load_tensor(const Checkpoint& checkpoint, const CheckpointTensor& tensor, std::int64_t layer, Reading reading, ModelWeights& w) {
  if (tensor.is_matrix) {
    *matrix_of(w, tensor.role, layer) = checkpoint.load_matrix(tensor, reading);
  } else if (std::vector<float>* vector = vector_of(w, tensor.role, layer)) {
    *vector = checkpoint.load_vector(tensor);
  }
}

}  // namespace

LayerWeights load_block(const Checkpoint& checkpoint, std::int64_t layer) {
  ModelWeights w;
  w.layers.resize(1);
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.layer == layer) load_tensor(checkpoint, tensor, 0, Reading::buffered, w);
  }
  return std::move(w.layers[0]);
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
      load_tensor(checkpoint, tensor, tensor.layer, reading, w);
      done += tensor.stored_bytes();
    }
  }
  if (progress) (void)progress(total, total);
  complete(w, checkpoint.config().tied);
  return w;
}

}  // namespace bantam::inline v0
