// Places of a role's rows.
#include "fused_rows.hpp"

#include "bantam/model/roles.hpp"

namespace bantam::inline v0 {

std::optional<FusedRows> fused_rows(const ModelConfig& config, const TensorKey& key, std::int64_t layer, bool gguf) noexcept {
  const RoleInfo& info = info_of(key.role);
  if (layer < 0 || info.is_of_expert() || info.by_heads || (key.fused.name.empty() && key.fused.gguf.empty())) return {};
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
      if (arch.find(other.role, config.layer(layer).is_sparse()) != &other) continue;
      const std::int64_t rows = rows_of(other.role) / groups;
      all += rows;
      if (other.fused.part < key.fused.part) first += rows;
    }
  }
  return FusedRows{groups * all, {first, {{{}, {groups, all}, {own, 1}}}}};
}

}  // namespace bantam::inline v0
