// Tensors of Hugging Face folders that have several of ours in one: all experts' gates and ups, both up-projections of latent attention,
// or q, k and v.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bantam/model/checkpoint.hpp"
#include "model/fused_rows.hpp"

namespace bantam::inline v0 {

struct Joined {
  std::string name;
  std::vector<std::int64_t> shape;
  Fused fused;
  std::int64_t number = 0;     ///< the expert's; of heads their count
  std::int64_t rows = 0, columns = 0;  ///< of the part; of heads' matrices those of one
  std::int64_t others = 0;     ///< of heads: rows of the sister's
  bool by_heads = false;
  std::optional<FusedRows> own = {};  ///< of a layer's own matrices and biases

  [[nodiscard]] std::int64_t size() const noexcept {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return count;
  }
  /// Where a number of the part is, counted through the whole.
  [[nodiscard]] std::int64_t place(std::int64_t row, std::int64_t column) const noexcept;
};

/// What a tensor is a part of in the folders of its architecture, if it is.
[[nodiscard]] std::optional<Joined> joined_of(const ModelConfig& config, const CheckpointTensor& tensor);

}  // namespace bantam::inline v0
