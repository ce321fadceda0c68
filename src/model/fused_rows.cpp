// Places of a role's rows.
#include "fused_rows.hpp"

#include "bantam/model/roles.hpp"

namespace bantam::inline v0 {

namespace {

/// Of delta nets: each key head has its query, its key, its values and their gates, or of each of its values beta and decay.
FusedRows rows_by_key_heads(const nn::RecurrentLayer& sizes, const TensorKey& key) {
  const std::int64_t each = sizes.value_heads / sizes.key_heads, values = each * sizes.value_dim;
  const bool inputs = key.role == Role::delta_qkv || key.role == Role::delta_z;
  const std::int64_t all = inputs ? 2 * (sizes.key_dim + values) : 2 * each;
  IndexList own;
  const auto take = [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t head = 0; head < sizes.key_heads; ++head) {
      for (std::int64_t i = 0; i < count; ++i) own.indices.push_back(head * all + first + i);
    }
  };
  switch (key.role) {
    case Role::delta_qkv:
      take(0, sizes.key_dim);
      take(sizes.key_dim, sizes.key_dim);
      take(2 * sizes.key_dim, values);
      break;
    case Role::delta_z: take(2 * sizes.key_dim + values, values); break;
    default: take(key.fused.part * each, each);
  }
  return {sizes.key_heads * all, std::move(own)};
}

}  // namespace

std::optional<FusedRows> fused_rows(const ModelConfig& config, const TensorKey& key, std::int64_t layer, bool gguf) {
  const RoleInfo& info = info_of(key.role);
  if (layer < 0 || info.is_of_expert() || info.by_heads || (key.fused.name.empty() && key.fused.gguf.empty())) return {};
  if (key.fused.by_key_heads) return rows_by_key_heads(config.recurrent, key);
  const auto rows_of = [&](Role role) {
    const auto [rows, columns] = shape_of(role, layer, config);
    return info.is_matrix() ? rows : columns;
  };
  const ArchSpec& arch = *config.arch;
  const std::int64_t groups = key.fused.by_groups && !gguf ? config.kv_heads_of(layer) : 1, own = rows_of(key.role) / groups;
  std::int64_t all = 0, first = 0;
  for (const auto& list : {arch.tensors, arch.more_tensors}) {
    for (const TensorKey& other : list) {
      if (other.fused.name != key.fused.name || other.fused.gguf != key.fused.gguf || !is_in_layer(other.role, layer, config)) continue;
      if (config.key_of(other.role, layer) != &other) continue;
      const std::int64_t rows = rows_of(other.role) / groups;
      all += rows;
      if (other.fused.part < key.fused.part) first += rows;
    }
  }
  return FusedRows{groups * all, Selection{first, {{{}, {groups, all}, {own, 1}}}}};
}

}  // namespace bantam::inline v0
