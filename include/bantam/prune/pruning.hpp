// What a recipe removes before, or while, it rounds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bantam/prune/sparse_format.hpp"

namespace bantam::inline v0 {

/// How the weights to remove are chosen.
enum class PruneMethod : std::uint8_t {
  magnitude,        ///< the smallest of each matrix; this and the next two need no calibration
  magnitude_row,    ///< of each row
  magnitude_model,  ///< of all matrices together, which lose different shares
  wanda,            ///< of each row those that matter least for its output, by their size and their inputs'
  /// SparseGPT (arXiv:2301.00774): column by column, those that are left making up for those that went. Where GPTQ rounds, both
  /// happen in one sweep.
  sparsegpt,
};
/// "magnitude", "magnitude_row", "magnitude_model", "wanda", "sparsegpt".
[[nodiscard]] std::string_view name_of(PruneMethod method) noexcept;
inline constexpr PruneMethod prune_methods[] = {PruneMethod::magnitude, PruneMethod::magnitude_row, PruneMethod::magnitude_model,
                                                PruneMethod::wanda, PruneMethod::sparsegpt};
/// "magnitude, magnitude_row, magnitude_model, wanda or sparsegpt".
[[nodiscard]] std::string names_of_prune_methods();
/// The inverse of name_of(). Throws invalid_argument listing the names there are.
[[nodiscard]] PruneMethod find_prune_method(std::string_view name);
[[nodiscard]] constexpr bool needs_calibration(PruneMethod method) noexcept { return method >= PruneMethod::wanda; }

/// Done to every matrix of every block; embeddings and head keep their weights.
struct Pruning {
  /// Matrices whose names match lose another share, or nothing: a sparsity that is not any().
  struct Exception {
    std::string pattern;  ///< with * and ?, against names like "model.layers.0.mlp.down_proj"
    Sparsity sparsity;
  };

  PruneMethod method = PruneMethod::wanda;
  Sparsity sparsity = {};
  std::vector<Exception> exceptions = {};  ///< the last that matches wins

  Pruning& except(std::string pattern, const Sparsity& other) {
    exceptions.push_back({std::move(pattern), other});
    return *this;
  }
  /// Of one matrix.
  [[nodiscard]] Sparsity sparsity_of(std::string_view name) const noexcept;
  /// "wanda:0.5,*.down_proj=0.3,*.layers.0.*=0".
  [[nodiscard]] std::string text() const;
};
/// The inverse of text(): a method, a sparsity as parse_sparsity reads it ("sparsegpt:16x4"), and exceptions. Throws
/// invalid_argument.
[[nodiscard]] Pruning find_pruning(std::string_view text);
/// Throws invalid_argument unless it removes something, and so much can be removed.
void check(const Pruning& pruning);

}  // namespace bantam::inline v0
