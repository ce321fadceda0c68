// What a model takes, and what a token reads of it: from shapes and formats alone, before anything is loaded.
#pragma once

#include "bantam/compress/recipe.hpp"
#include "bantam/model/checkpoint.hpp"

namespace bantam::inline v0 {

/// The layer that drafts takes room, and works for no token.
struct Footprint {
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;  ///< that work for a token: of experts those that it is routed to, of tables that are looked up none
  std::int64_t matrix_parameters = 0;
  std::int64_t bytes = 0;              ///< of all tensors
  std::int64_t matrix_bytes = 0;
  std::int64_t token_bytes = 0;        ///< of the active parameters: what decoding a token reads
  std::int64_t layer_token_bytes = 0;  ///< those of them in layers
  double layer_operations = 0;         ///< of a token with the matrices of all layers; a multiply and an add are two
  double float_operations = 0;         ///< those of them with matrices of floats

  [[nodiscard]] double bits_per_weight() const noexcept { return 8.0 * static_cast<double>(matrix_bytes) / static_cast<double>(matrix_parameters); }
};

/// As it is stored.
[[nodiscard]] Footprint footprint_of(const Checkpoint& checkpoint);
/// A model as a recipe would leave it in a native file: shapes and formats, to be looked at, not read. Throws what compress_file() throws for
/// recipes that do not fit the model.
[[nodiscard]] Checkpoint outline_of(const Checkpoint& checkpoint, const Recipe& recipe);

}  // namespace bantam::inline v0
