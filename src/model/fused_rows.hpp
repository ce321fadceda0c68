// Tensors that have the rows of several of a layer's own roles: q, k and v, or gate and up.
#pragma once

#include <optional>

#include "bantam/model/config.hpp"
#include "sources/transforms.hpp"

namespace bantam::inline v0 {

struct FusedRows {
  std::int64_t rows = 0;  ///< of the tensor
  Selection own;          ///< those of the role
};

/// Where the rows of a role are in its fused tensor; nothing where the architecture has it in none, or in one of experts or heads.
[[nodiscard]] std::optional<FusedRows> fused_rows(const ModelConfig& config, const TensorKey& key, std::int64_t layer, bool gguf) noexcept;

}  // namespace bantam::inline v0
