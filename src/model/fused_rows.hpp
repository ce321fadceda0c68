// Tensors that have the rows of several of a layer's own roles: q, k and v, gate and up, or what a delta net reads.
#pragma once

#include <optional>
#include <variant>

#include "bantam/model/config.hpp"
#include "sources/transforms.hpp"

namespace bantam::inline v0 {

struct FusedRows {
  std::int64_t rows = 0;  ///< of the tensor
  std::variant<Selection, IndexList> own;  ///< those of the role
  /// Where one of the role's rows is.
  [[nodiscard]] std::int64_t place(std::int64_t row) const noexcept {
    return std::visit([&](const auto& rows_of_role) { return rows_of_role[row]; }, own);
  }
};

/// Where the rows of a role are in its fused tensor; nothing where the architecture has it in none, or in one of experts or heads.
[[nodiscard]] std::optional<FusedRows> fused_rows(const ModelConfig& config, const TensorKey& key, std::int64_t layer, bool gguf);

}  // namespace bantam::inline v0
