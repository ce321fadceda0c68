// Sizes of a model by what works for a token.
#include "bantam/compress/footprint.hpp"

#include "bantam/model/residency.hpp"
#include "output.hpp"
#include "plan.hpp"

namespace bantam::inline v0 {

Footprint footprint_of(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  Footprint sum;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const std::int64_t weights = tensor.rows * tensor.columns, bytes = tensor.stored_bytes();
    sum.parameters += weights;
    sum.bytes += bytes;
    if (tensor.is_matrix) sum.matrix_parameters += weights, sum.matrix_bytes += bytes;
    // All experts of a layer are as large.
    const bool routed = tensor.expert < config.router.used;
    if (!routed || !detail::is_read_whole(tensor, config) || tensor.is_drafting) continue;
    sum.active_parameters += weights;
    sum.token_bytes += bytes;
    if (tensor.layer >= 0) sum.layer_token_bytes += bytes;
    if (!tensor.is_matrix || tensor.layer < 0) continue;
    sum.layer_operations += 2 * static_cast<double>(weights);
    if (tensor.format().is_float) sum.float_operations += 2 * static_cast<double>(weights);
  }
  return sum;
}

Checkpoint outline_of(const Checkpoint& checkpoint, const Recipe& asked) {
  const Recipe recipe = asked.for_model(checkpoint);
  check_formats(recipe, Target::native);
  return checkpoint.in_formats([&](const CheckpointTensor& matrix) -> const FormatInfo& { return format_in(Target::native, matrix, recipe, checkpoint.config()); });
}

}  // namespace bantam::inline v0
