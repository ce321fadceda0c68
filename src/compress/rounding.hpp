// One matrix, rounded and measured: what every method and the pass over a model share.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "bantam/compress/compress.hpp"
#include "bantam/compress/nearest.hpp"
#include "bantam/core/error.hpp"
#include "bantam/core/team.hpp"
#include "bantam/model/arch_spec.hpp"
#include "bantam/model/checkpoint.hpp"
#include "bantam/quant/weights.hpp"

namespace bantam::inline v0 {

struct Rounded {
  WeightMatrix matrix;
  double relative_error = 0;  ///< ||W - W'|| / ||W||, W as it was to be rounded, or pruned and rounded
  std::int64_t zeros = 0;     ///< weights that are 0 now
  std::optional<double> output_error = {};  ///< as LayerReport says
};

/// What a block of a model becomes. Matrices that stay as they are, or are rounded to nearest without calibration, and
/// vectors that stay, are not in here.
struct RoundedBlock {
  std::map<TensorId, Rounded> matrices;
  std::map<TensorId, std::vector<float>> vectors;
  std::vector<InputReport> inputs;    ///< by input group
  std::vector<std::string> warnings;  ///< of what went otherwise than asked, naming the matrix
};

/// Where rows of floats come from.
using ReadRow = FunctionRef<void(std::int64_t row, std::span<float> out, RowCodes& scratch)>;

/// Calls f; errors name the matrix.
template <class F>
auto naming(const std::string& name, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    fail(error.code(), name, ": ", error.what());
  }
}

/// Throws naming the weight that a format cannot hold.
[[noreturn]] void fail_too_large(const std::string& name, const FormatInfo& format, float value, std::int64_t row, std::size_t column);

/// Rounds a matrix row by row to nearest, on all cores; without `fitted` on the format's own grids. Throws naming the weight
/// that is not finite before or after.
[[nodiscard]] Rounded round_matrix(const std::string& name, std::int64_t rows, std::int64_t columns, const FormatInfo& format, ReadRow read,
                                   const std::optional<NearestOptions>& fitted = {});
[[nodiscard]] Rounded round_matrix(const std::string& name, TensorView<const float, 2> weights, const FormatInfo& format);
/// Prunes and rounds a matrix by itself, without calibration, as the recipe's methods do then.
[[nodiscard]] Rounded round_alone(const Recipe& recipe, const CheckpointTensor& tensor, const FormatInfo& format, ReadRow read);
/// Whether a recipe removes weights of it: of the matrices of blocks, and no others.
[[nodiscard]] bool is_pruned(const Recipe& recipe, const CheckpointTensor& tensor) noexcept;
/// What of one matrix goes. `mean_squares`: of its inputs, (columns), for methods that need calibration.
[[nodiscard]] Mask mask_of(const Pruning& pruning, const Tensor<float, 2>& weights, std::span<const float> mean_squares = {});
/// ||X (W - W')T|| / ||X WT|| for inputs X, (tokens, columns), of both; a few rows of W at a time.
[[nodiscard]] double output_error(TensorView<const float, 2> inputs, const WeightMatrix& original, const WeightMatrix& rounded);
/// A matrix rounded elsewhere, measured against what it was.
[[nodiscard]] Rounded measured(const std::string& name, const WeightMatrix& original, WeightMatrix rounded);

}  // namespace bantam::inline v0
