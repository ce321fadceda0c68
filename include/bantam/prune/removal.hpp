// Parts of a model that go as a whole, and what that changes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bantam::inline v0 {

/// What goes as a whole.
enum class Part : std::uint8_t {
  layers,    ///< those that change the hidden states least (ShortGPT, arXiv:2403.03853)
  channels,  ///< of the FFN: rows of gate and up, and the columns of down that read them
  heads,     ///< key-value heads with all query heads that share them: rows of q, k and v, columns of o
  experts,   ///< of a mixture, in each layer: those that add least to the tokens routed to them (REAP, arXiv:2510.13999)
  hidden,    ///< dimensions of the residual stream, after a rotation that puts what matters first (SliceGPT, arXiv:2401.15024)
};
inline constexpr Part prune_parts[] = {Part::layers, Part::channels, Part::heads, Part::experts, Part::hidden};
[[nodiscard]] std::string_view name_of(Part part) noexcept;
/// What parse_removal() takes, for messages: "layers:COUNT, channels:SHARE, ...".
[[nodiscard]] std::string removal_forms();

struct Removal {
  Part part;
  double amount;  ///< how many layers; of the others a share above 0 and below 1: of each layer's, of the hidden dimensions

  /// "layers:4", "channels:0.3".
  [[nodiscard]] std::string text() const;
};
/// The inverse of text(). Throws invalid_argument listing what there is.
[[nodiscard]] Removal parse_removal(std::string_view text);

/// What a model costs, its weights rounded by a recipe.
enum class Cost : std::uint8_t {
  parameters,
  flops,    ///< ModelSize::flops_per_token
  bytes,    ///< of the file, or of a folder's files
  latency,  ///< seconds to decode a token, by the clock
};
inline constexpr Cost prune_costs[] = {Cost::parameters, Cost::flops, Cost::bytes, Cost::latency};
/// "parameters", "flops", "bytes", "latency".
[[nodiscard]] std::string_view name_of(Cost cost) noexcept;

/// The inverse. Throws invalid_argument listing the names there are.
[[nodiscard]] Cost find_cost(std::string_view name);
/// By Cost; 0: not measured.
struct Costs {
  std::array<double, 4> values = {};
  double& operator[](Cost cost) noexcept { return values[static_cast<std::size_t>(cost)]; }
  double operator[](Cost cost) const noexcept { return values[static_cast<std::size_t>(cost)]; }
};

/// Parts that went, or are to go, and what the model costs with and without them in the formats of a recipe.
struct PruneReport {
  std::vector<Removal> removals;
  Costs before, after;
  std::int64_t bytes_before = 0;     ///< of the whole model as it lies in its files, or in memory
  std::vector<std::int64_t> layers;  ///< the original's that stayed; empty before anything went
  std::vector<double> influence;     ///< of each layer of the original (block_influence()), where layers went
  std::vector<std::string> warnings;
};

}  // namespace bantam::inline v0
