// Sizes of a model by what works for a token.
#include "bantam/compress/footprint.hpp"

#include "bantam/model/roles.hpp"
#include "output.hpp"
#include "plan.hpp"

namespace bantam::inline v0 {

namespace {

/// `format_of(tensor)`: the format that it lies in; `bytes_of(tensor)`: what it takes so.
template <class FormatOf, class BytesOf>
Footprint add_up(const Checkpoint& checkpoint, FormatOf&& format_of, BytesOf&& bytes_of) {
  const ModelConfig& config = checkpoint.config();
  Footprint sum;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const std::int64_t weights = tensor.rows * tensor.columns, bytes = bytes_of(tensor);
    sum.parameters += weights;
    sum.bytes += bytes;
    if (tensor.is_matrix) sum.matrix_parameters += weights, sum.matrix_bytes += bytes;
    // All experts of a layer are as large.
    const bool routed = tensor.expert < config.router.used;
    const bool reads = !info_of(tensor.role).is_looked_up() || (tensor.role == Role::embedding && config.tied);
    if (!routed || !reads || tensor.is_drafting) continue;
    sum.active_parameters += weights;
    sum.token_bytes += bytes;
    if (!tensor.is_matrix || tensor.layer < 0) continue;
    sum.layer_operations += 2 * static_cast<double>(weights);
    if (format_of(tensor).is_float) sum.float_operations += 2 * static_cast<double>(weights);
  }
  return sum;
}

}  // namespace

Footprint footprint_of(const Checkpoint& checkpoint) {
  return add_up(
      checkpoint, [](const CheckpointTensor& tensor) -> const FormatInfo& { return tensor.format(); },
      [](const CheckpointTensor& tensor) { return tensor.stored_bytes(); });
}

Footprint footprint_of(const Checkpoint& checkpoint, const Recipe& asked) {
  const Recipe recipe = asked.for_model(checkpoint);
  check_formats(recipe, Target::native);
  const auto format_of = [&](const CheckpointTensor& tensor) -> const FormatInfo& {
    return tensor.is_matrix ? format_in(Target::native, tensor, recipe, checkpoint.config()) : format_info<F32Format>();
  };
  return add_up(checkpoint, format_of, [&](const CheckpointTensor& tensor) {
    if (!tensor.is_matrix) return tensor.columns * static_cast<std::int64_t>(sizeof(float));
    return stored_size(Target::native, tensor.rows, tensor.columns, format_of(tensor)).bytes;
  });
}

}  // namespace bantam::inline v0
