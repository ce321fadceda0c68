// Rotating a model block by block.
#include "model_source.hpp"

#include <algorithm>

#include "fold.hpp"
#include "rounding.hpp"

namespace bantam::inline v0 {

namespace {

/// Whether load_block() and read_row() know what to do with a tensor: one that they do not would silently stay as it was.
bool is_known(Role role) noexcept {
  switch (role) {
    case Role::embedding:
    case Role::final_norm:
    case Role::head:
    case Role::rope_divisors:
    case Role::attention_norm:
    case Role::q:
    case Role::k:
    case Role::v:
    case Role::o:
    case Role::q_bias:
    case Role::k_bias:
    case Role::v_bias:
    case Role::o_bias:
    case Role::q_norm:
    case Role::k_norm:
    case Role::ffn_norm:
    case Role::gate:
    case Role::up:
    case Role::down: return true;
  }
  return false;
}

/// Rotates piece after piece.
void rotate_pieces(const Rotation& rotation, std::vector<float>& values) {
  const auto size = static_cast<std::size_t>(rotation.size());
  for (std::size_t first = 0; first < values.size(); first += size) rotation.apply(std::span(values).subspan(first, size));
}

}  // namespace

LayerWeights load_finite_block(const Checkpoint& checkpoint, std::int64_t layer) {
  ModelWeights weights;
  weights.layers.push_back(load_block(checkpoint, layer));
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.layer != layer) continue;
    if (tensor.is_matrix) {
      check_finite(tensor.name, *matrix_of(weights, tensor.role, 0));
    } else if (const std::vector<float>* vector = vector_of(weights, tensor.role, 0)) {
      check_finite(tensor.name, 0, *vector);
    }
  }
  return std::move(weights.layers[0]);
}

void check_rotatable(const ModelConfig& config) {
  for (const auto& list : {config.arch->tensors, config.arch->more_tensors}) {
    for (const TensorKey& key : list) {
      if (is_known(key.role)) continue;
      fail(Errc::unsupported, "rotation: ", config.arch->name, ": ", key.hf, ": not yet; what works: models of Llama's tensors");
    }
  }
  if (config.arch->norm != Norm::rms) {
    fail(Errc::unsupported, "rotation: ", config.arch->name, ": expected RMS norms, which a rotation of their inputs leaves as they are");
  }
}

ModelSource::ModelSource(const Checkpoint& checkpoint, const Recipe& recipe) : original_(checkpoint), seed_(recipe.options().rotation) {
  if (!seed_) return;
  check_rotatable(checkpoint.config());
  residual_.emplace(checkpoint.config().dim, *seed_);
  fold_final_norm();
}

ModelSource::ModelSource(const Checkpoint& checkpoint, Rotation residual) : original_(checkpoint) {
  check_rotatable(checkpoint.config());
  residual_ = std::move(residual);
  fold_final_norm();
}

void ModelSource::fold_final_norm() {
  const auto norm = std::ranges::find(original_.tensors(), Role::final_norm, &CheckpointTensor::role);
  std::vector<float> gains = original_.load_vector(*norm);
  check_finite(norm->name, 0, gains);
  if (std::ranges::all_of(gains, [&](float gain) { return gain == gains[0]; })) return;
  head_gains_ = std::move(gains);
  if (original_.config().tied) untied_ = original_.untied();
}

LayerWeights ModelSource::load_block(std::int64_t layer) const {
  if (!rotated()) return bantam::load_block(original_, layer);
  // Rotated, a number that is not finite would be in every row.
  LayerWeights w = load_finite_block(original_, layer);
  // A seed of its own for each block, whatever the first; 0 is the residual stream's.
  std::optional<Rotation> values;
  if (seed_) values.emplace(original_.config().head_dim, *seed_ + 0x9e3779b97f4a7c15U * static_cast<std::uint64_t>(layer + 1));
  for (const auto& [matrix, norm] : {std::pair{&w.q, &w.attention_norm}, {&w.k, &w.attention_norm}, {&w.v, &w.attention_norm},
                                     {&w.gate, &w.ffn_norm}, {&w.up, &w.ffn_norm}}) {
    if (matrix->empty()) continue;
    // Captured by name: clang 14 lets no lambda refer to a structured binding.
    change(*matrix, [&, matrix = matrix, norm = norm](Tensor<float, 2>& m) {
      scale_columns(m, *norm);
      residual_->rotate_columns(m);
      if (matrix == &w.v && values) values->rotate_rows(m);
    });
  }
  change(w.o, [&](Tensor<float, 2>& m) {
    if (values) values->rotate_columns(m);
    residual_->rotate_rows(m);
  });
  change(w.down, [&](Tensor<float, 2>& m) { residual_->rotate_rows(m); });
  if (values) rotate_pieces(*values, w.v_bias);
  rotate_pieces(*residual_, w.o_bias);
  for (std::vector<float>* norm : {&w.attention_norm, &w.ffn_norm}) std::ranges::fill(*norm, 1.0f);
  return w;
}

void ModelSource::read_folded(const CheckpointTensor& tensor, std::int64_t row, std::span<float> out, RowCodes& scratch) const {
  original_.read_row(tensor, row, out, scratch);
  if (!rotated()) return;
  check_finite(tensor.name, row, out);
  if (tensor.role != Role::head) return;
  for (std::size_t c = 0; c < head_gains_.size(); ++c) out[c] *= head_gains_[c];
}

void ModelSource::read_row(const CheckpointTensor& tensor, std::int64_t row, std::span<float> out, RowCodes& scratch) const {
  read_folded(tensor, row, out, scratch);
  if (rotated()) residual_->apply(out);
}

Tensor<float, 2> ModelSource::read_rows(const CheckpointTensor& tensor, std::int64_t first, std::int64_t count) const {
  Tensor<float, 2> rows({count, tensor.columns});
  RowCodes scratch;
  for (std::int64_t r = 0; r < count; ++r) read_folded(tensor, first + r, {&rows(r, 0), static_cast<std::size_t>(tensor.columns)}, scratch);
  if (rotated()) residual_->rotate_columns(rows);
  return rows;
}

std::vector<float> ModelSource::load_vector(const CheckpointTensor& tensor) const {
  if (tensor.role == Role::final_norm && !head_gains_.empty()) return std::vector<float>(head_gains_.size(), 1.0f);
  return original_.load_vector(tensor);
}

}  // namespace bantam::inline v0
