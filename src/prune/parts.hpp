// Which tensors of a block hold a part of it, and taking parts out.
#pragma once

#include <vector>

#include "bantam/model/weights.hpp"
#include "bantam/prune/structure.hpp"

namespace bantam::inline v0 {

/// 0, 1, ... count - 1.
[[nodiscard]] std::vector<std::int64_t> first_numbers(std::int64_t count);

/// Parts of a layer that stay, in order, and those that go.
struct PartChoice {
  std::vector<std::int64_t> kept, removed;
};
/// Keeps the `count` of highest score; of equals, the first.
[[nodiscard]] PartChoice choose(std::span<const double> scores, std::int64_t count);

/// As many of each of so many groups of neighbors.
[[nodiscard]] PartChoice choose_in_groups(std::span<const double> scores, std::int64_t count, std::int64_t groups);

/// That of some of the layers, ascending.
[[nodiscard]] ModelConfig with_layers(const ModelConfig& config, std::span<const std::int64_t> layers);

/// The matrix whose columns read what the parts make.
[[nodiscard]] Role reader_of(Part part) noexcept;
/// Neighboring columns of that for each part, in a layer.
[[nodiscard]] std::int64_t columns_of(Part part, const ModelConfig& config, std::int64_t layer) noexcept;
/// The numbers of a part's neighbors, for a list of parts.
[[nodiscard]] std::vector<std::int64_t> spread(std::span<const std::int64_t> parts, std::int64_t neighbors);

/// Takes parts out of every tensor of a layer's block. Floats keep their format and their bits; quantized matrices become f32.
void keep_parts(LayerWeights& block, Part part, std::span<const std::int64_t> kept, const ModelConfig& config, std::int64_t layer);

}  // namespace bantam::inline v0
