// Places of parts.
#include "joined.hpp"

#include "bantam/model/roles.hpp"

namespace bantam::inline v0 {

std::int64_t Joined::place(std::int64_t row, std::int64_t column) const noexcept {
  if (own) return fused.transposed ? column * own->rows + own->place(row) : own->place(row) * columns + column;
  if (by_heads) {
    const std::int64_t head = row / rows, in_head = row % rows;
    // (heads, nope and value, rank): the first part stands there as its transpose.
    if (fused.transposed) return (head * (columns + others) + column) * rows + in_head;
    return (head * (others + rows) + others + in_head) * columns + column;
  }
  const std::int64_t all = fused.parts * rows, at = fused.interleaved ? row * fused.parts + fused.part : fused.part * rows + row;
  return number * all * columns + (fused.transposed ? column * all + at : at * columns + column);
}

std::optional<Joined> joined_of(const ModelConfig& config, const CheckpointTensor& tensor) {
  if (tensor.layer < 0) return {};
  const TensorKey* key = config.key_of(tensor.role, tensor.layer);
  if (key == nullptr || key->fused.name.empty() || key->fused.only_read) return {};
  Joined joined{.name = name_in(config, key->fused.name, tensor), .shape = {}, .fused = key->fused, .number = tensor.expert, .rows = tensor.rows, .columns = tensor.columns};
  if (info_of(tensor.role).by_heads) {
    const std::int64_t heads = config.heads_of(tensor.layer), nope = config.head_dim - config.rope.dim;
    joined.by_heads = true;
    joined.number = heads;
    joined.rows = tensor.rows / heads;
    joined.others = key->fused.transposed ? config.value_dim : nope;
    joined.shape = {heads * (nope + config.value_dim), config.kv_rank};
    return joined;
  }
  if (joined.own = fused_rows(config, *key, tensor.layer, false); joined.own) {
    if (!tensor.is_matrix) {
      joined.rows = tensor.columns, joined.columns = 1;
      joined.shape = {joined.own->rows};
      joined.fused.transposed = false;
    } else {
      joined.shape = {joined.own->rows, tensor.columns};
      if (joined.fused.transposed) std::swap(joined.shape[0], joined.shape[1]);
    }
    return joined;
  }
  const std::int64_t experts = config.layer(tensor.layer).experts;
  if (!tensor.is_matrix) {
    // A vector's numbers are the rows.
    joined.rows = tensor.columns, joined.columns = 1;
    joined.shape = {experts, joined.fused.parts * joined.rows};
    joined.fused.transposed = false;
  } else if (key->fused.transposed) {
    joined.shape = {experts, tensor.columns, key->fused.parts * tensor.rows};
  } else {
    joined.shape = {experts, key->fused.parts * tensor.rows, tensor.columns};
  }
  return joined;
}

}  // namespace bantam::inline v0
