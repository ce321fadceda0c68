// What a recipe removes before, or while, it rounds.
#pragma once

#include "bantam/prune/mask.hpp"
#include "bantam/quant/format_info.hpp"

namespace bantam::inline v0 {

/// How the weights to remove are chosen.
enum class PruneMethod : std::uint8_t {
  magnitude,  ///< the smallest of each matrix; no calibration
  wanda,      ///< of each row those that matter least for its output, by their size and their inputs'
  /// SparseGPT (arXiv:2301.00774): column by column, those that are left making up for those that went. Where GPTQ rounds, both
  /// happen in one sweep.
  sparsegpt,
};
/// "magnitude", "wanda", "sparsegpt".
[[nodiscard]] std::string_view name_of(PruneMethod method) noexcept;
inline constexpr PruneMethod prune_methods[] = {PruneMethod::magnitude, PruneMethod::wanda, PruneMethod::sparsegpt};
/// The inverse. Throws invalid_argument listing the names there are.
[[nodiscard]] PruneMethod find_prune_method(std::string_view name);
[[nodiscard]] constexpr bool needs_calibration(PruneMethod method) noexcept { return method != PruneMethod::magnitude; }

/// Done to every matrix of every block; embeddings and head keep their weights.
struct Pruning {
  PruneMethod method = PruneMethod::wanda;
  Sparsity sparsity = {};
};
/// "wanda:0.5", "magnitude:2:4", "sparsegpt:16x4": a method and a sparsity as parse_sparsity reads it. Throws invalid_argument.
[[nodiscard]] Pruning find_pruning(std::string_view text);

/// Whether a format holds 0 exactly, on whatever grid: those with minimums and iq4 do not. What is removed has to stay so.
[[nodiscard]] bool holds_zero(const FormatInfo& format);
/// Whether a format holds whatever such a sparsity leaves; those that hold all weights do.
[[nodiscard]] bool holds_rest(const FormatInfo& format, const Sparsity& sparsity) noexcept;
/// The same for one mask.
[[nodiscard]] bool holds_rest(const FormatInfo& format, const Mask& mask) noexcept;
/// The sparsity that leaves what a format holds; none for those that hold all weights.
[[nodiscard]] Sparsity sparsity_of(const FormatInfo& format) noexcept;

}  // namespace bantam::inline v0
