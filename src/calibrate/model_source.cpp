// Rotating a model block by block.
#include "model_source.hpp"

#include <algorithm>

#include "bantam/core/parallel.hpp"
#include "bantam/model/forward.hpp"
#include "fold.hpp"

namespace bantam::inline v0 {

namespace {

/// Rotates piece after piece.
void rotate_pieces(const Rotation& rotation, std::vector<float>& values) {
  const auto size = static_cast<std::size_t>(rotation.size());
  for (std::size_t first = 0; first < values.size(); first += size) rotation.apply(std::span(values).subspan(first, size));
}

}  // namespace

void check_finite(const std::string& name, std::int64_t row, std::span<const float> values) {
  for (std::size_t c = 0; c < values.size(); ++c) {
    if (!std::isfinite(values[c])) fail(Errc::corrupt, name, ": expected finite weights, found ", values[c], " at (", row, ", ", c, ")");
  }
}

void check_finite(const std::string& name, const WeightMatrix& matrix) {
  parallel_for(div_up<std::int64_t>(matrix.rows(), panel_rows), 1, [&](Range panels) {
    std::vector<float> values(static_cast<std::size_t>(matrix.columns()));
    RowCodes scratch;
    for (std::int64_t row = panels.begin * panel_rows; row < std::min(panels.end * panel_rows, matrix.rows()); ++row) {
      matrix.read_row(row, values, scratch);
      check_finite(name, row, values);
    }
  });
}

LayerWeights load_finite_block(const Checkpoint& checkpoint, std::int64_t layer) {
  LayerWeights block = load_block(checkpoint, layer);
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.layer != layer) continue;
    if (tensor.is_matrix) {
      check_finite(tensor.name, *matrix_of(block, tensor));
    } else if (const std::vector<float>* vector = vector_of(block, tensor)) {
      check_finite(tensor.name, 0, *vector);
    }
  }
  return block;
}

void check_rotatable(const ModelConfig& config) {
  if (config.arch->norm != Norm::rms) {
    fail(Errc::unsupported, "rotation: ", config.arch->name, ": expected RMS norms, which a rotation of their inputs leaves as they are");
  }
  if (config.has_source()) fail(Errc::unsupported, "rotation: ", config.arch->name, ": of a decoder behind an encoder: not yet");
  // What is asked of it would be rotated, and nothing takes over the final norm.
  if (!config.has_head) fail(Errc::unsupported, "rotation: ", config.arch->name, ": expected a model with a head");
  if (config.arch->recurrent != MixerKind::none) fail(Errc::unsupported, "rotation: ", config.arch->name, ": of models with recurrent layers: not yet");
  if (config.arch->learns_positions() || config.arch->find(Role::embedding_norm) != nullptr) {
    fail(Errc::unsupported, "rotation: ", config.arch->name, ": of models with learned positions, or a norm behind the embedding: not yet");
  }
  if (!config.arch->norms_before_blocks()) {
    fail(Errc::unsupported, "rotation: ", config.arch->name, ": expected a norm before each block and none behind it");
  }
}

ModelSource::ModelSource(const Checkpoint& checkpoint, std::optional<std::uint64_t> seed) : original_(checkpoint), seed_(seed) {
  if (!seed_) return;
  check_rotatable(checkpoint.config());
  residual_.emplace(checkpoint.config().dim, *seed_);
  leave_out_drafting();
  fold_final_norm();
}

ModelSource::ModelSource(const Checkpoint& checkpoint, Rotation residual) : original_(checkpoint) {
  check_rotatable(checkpoint.config());
  residual_ = std::move(residual);
  leave_out_drafting();
  fold_final_norm();
}

const ModelWeights& ModelSource::tables() const {
  std::call_once(tables_known_, [this] {
    for (const CheckpointTensor& tensor : original_.tensors()) {
      const bool is_table = tensor.role == Role::position_embedding || tensor.role == Role::token_type_embedding || tensor.role == Role::embedding_norm || tensor.role == Role::embedding_norm_bias ||
                            tensor.role == Role::encoder_position_embedding || tensor.role == Role::encoder_embedding_norm || tensor.role == Role::encoder_embedding_norm_bias;
      if (!is_table) continue;
      if (tensor.is_matrix) *matrix_of(tables_, tensor) = original_.load_matrix(tensor, Reading::buffered);
      if (!tensor.is_matrix) *vector_of(tables_, tensor) = original_.load_vector(tensor);
    }
  });
  return tables_;
}

void ModelSource::leave_out_drafting() {
  if (!original_.config().drafting.empty()) changed_ = original_.without_drafting();
}

void ModelSource::fold_final_norm() {
  const auto norm = std::ranges::find(original_.tensors(), Role::final_norm, &CheckpointTensor::role);
  std::vector<float> gains = original_.load_vector(*norm);
  check_finite(norm->name, 0, gains);
  if (std::ranges::all_of(gains, [&](float gain) { return gain == gains[0]; })) return;
  head_gains_ = std::move(gains);
  if (original_.config().tied) changed_ = checkpoint().untied();
}

std::shared_ptr<const LayerWeights> ModelSource::acquire(std::int64_t layer) const {
  return std::make_shared<const LayerWeights>(rotated() ? rotated_block(layer) : load_block(original_, layer));
}

LayerWeights ModelSource::rotated_block(std::int64_t layer) const {
  // Rotated, a number that is not finite would be in every row.
  LayerWeights block = load_finite_block(original_, layer);
  // A seed of its own for each block, whatever the first; 0 is the residual stream's.
  std::optional<Rotation> values;
  if (seed_ && !original_.config().is_latent()) values.emplace(original_.config().value_dim, *seed_ + 0x9e3779b97f4a7c15U * static_cast<std::uint64_t>(layer + 1));
  const auto rotate = [&](const TensorId& id, WeightMatrix& matrix) {
    if (matrix.empty()) return;
    const RoleInfo& info = info_of(id.role);
    change(matrix, [&](Tensor<float, 2>& m) {
      // A router may read the stream as it is, before any norm.
      const bool normed = id.role != Role::router || !original_.config().arch->routes_inputs;
      if (is_stream(info.columns) && normed) scale_columns(m, *vector_of(block, norm_of(info.role)));
      if (is_stream(info.columns)) residual_->rotate_columns(m);
      if (values && info.role == Role::v) values->rotate_rows(m);
      // A norm before `o` is the same of rotated values, but for its weights.
      if (values && info.role == Role::o && !block.attention.o_norm.empty()) scale_columns(m, block.attention.o_norm);
      if (values && info.role == Role::o) values->rotate_columns(m);
      if (is_stream(info.rows)) residual_->rotate_rows(m);
    });
    std::vector<float>* bias = bias_of(block, id);
    if (bias != nullptr && values && info.role == Role::v) rotate_pieces(*values, *bias);
    if (bias != nullptr && is_stream(info.rows)) rotate_pieces(*residual_, *bias);
  };
  for_each_matrix(block, rotate);
  if (std::vector<float>& gate = block.experts.shared_gate; !gate.empty()) {
    for (std::size_t c = 0; c < gate.size(); ++c) gate[c] *= block.ffn_norm[c];
    residual_->apply(gate);
  }
  for (std::vector<float>* norm : {&block.attention_norm, &block.ffn_norm}) std::ranges::fill(*norm, 1.0f);
  if (values) std::ranges::fill(block.attention.o_norm, 1.0f);
  return block;
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

void ModelSource::embed(const CheckpointTensor& embedding, TokenId id, std::int64_t position, std::span<float> out, RowCodes& scratch, Stack stack) const {
  read_row(embedding, id, out, scratch);
  place(position, out, scratch, stack);
}

void ModelSource::place(std::int64_t position, std::span<float> row, RowCodes& scratch, Stack stack) const {
  const ModelConfig& config = original_.config();
  if (const auto scale = static_cast<float>(config.scales.embedding); scale != 1) {
    for (float& x : row) x *= scale;
  }
  std::vector<float> learned(config.arch->learns_positions() ? row.size() : 0);
  place_embedding(kernels_in_use(), config, tables(), stack, position, 0, row, learned, scratch);
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
