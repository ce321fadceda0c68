// What a block declares of its weights, beside its arithmetic: loading, writing, shapes, calibration, folding and pruning follow from it.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "bantam/nn/blocks/role.hpp"
#include "bantam/quant/weights.hpp"

namespace bantam::inline v0::nn {

/// One weight of a block: its shape, and where it is kept.
template <class Weights>
struct BlockWeight {
  Role role;
  WeightAxis rows, columns;  ///< `one` row: a vector
  std::variant<WeightMatrix Weights::*, std::vector<float> Weights::*> place;
  std::optional<Role> bias_of = {};  ///< the matrix whose rows it is added to
  bool by_heads = false;             ///< a matrix of each head, one behind the other: GGUF's (heads, rows, columns)
};

/// Matrices of a block that read the same activations: they share second moments, scales of AWQ and SmoothQuant, and outliers.
struct BlockInputs {
  std::string_view name = {};     ///< "q, k and v"
  std::span<const Role> roles = {};
  std::optional<Role> source = {};  ///< makes what they read, value by value: the rows of a matrix, or a norm's weight; none: the norm before the block
  std::optional<Role> norm = {};  ///< of what `source` makes, in models that have it: it takes scales in its place
  bool adds = false;              ///< to the residual stream: the last of the block
  bool fixed = false;             ///< nothing before it can take scales
};

}  // namespace bantam::inline v0::nn
