// How containers order the numbers of a weight, and what they store in their place.
#pragma once

#include <vector>

#include "bantam/model/config.hpp"

namespace bantam::inline v0 {

enum class Container : std::uint8_t { folder, gguf, native };

/// Where a container differs from the model, of one weight.
struct Arrangement {
  std::vector<std::int64_t> rows = {};     ///< which of theirs each of ours is, of a matrix; empty: the same order
  std::vector<std::int64_t> columns = {};  ///< the same of columns, or of a vector's numbers
  bool is_log = false;                ///< x is stored as log(-x): A_log of recurrent layers
  bool is_negative = false;           ///< or as -x
};

/// Pairs of rope that are neighbors in GGUF files of some architectures, heads of delta nets in another order, and convolutions by
/// channel where ours are by tap. Native files hold what the model has.
[[nodiscard]] Arrangement arrangement_of(const TensorId& id, const ModelConfig& config, Container container);

/// The shape of a vector that a container stores as a tensor of more axes; empty: it does not.
[[nodiscard]] std::vector<std::int64_t> stored_shape(const TensorId& id, const ModelConfig& config, Container container);

/// A vector, or a row, as a container has it.
[[nodiscard]] std::vector<float> in_container(const std::vector<float>& values, const Arrangement& theirs);
/// Which of ours each of theirs is; empty for empty.
[[nodiscard]] std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& order);

}  // namespace bantam::inline v0
