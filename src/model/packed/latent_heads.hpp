// The keys' and values' up-projections of latent attention, of one tensor: folders and older GGUF files have them so.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "bantam/model/arch_spec.hpp"
#include "packed_matrix.hpp"

namespace bantam::inline v0 {

/// A tensor of rows (heads * (nope + value), kv_rank), however it is stored.
struct LatentRows {
  std::function<void(std::int64_t row, std::span<float> out)> read;
  std::vector<const TensorEntry*> parts;  ///< that it consists of
  const FormatInfo* format = nullptr;     ///< of floats that hold every value exactly
  std::string description;
};

/// The role of `fused` in it, of each head one behind the other: (heads * rows, columns), in floats.
struct LatentShape {
  std::int64_t heads = 0, nope = 0, value = 0, rank = 0;
};
[[nodiscard]] std::unique_ptr<const PackedMatrix> open_latent_heads(LatentRows rows, const LatentShape& shape, const Fused& fused);

}  // namespace bantam::inline v0
