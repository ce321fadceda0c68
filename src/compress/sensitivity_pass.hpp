// The pass over a model that measures what formats cost.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "bantam/compress/sensitivity.hpp"
#include "bantam/core/stopwatch.hpp"
#include "rounding_pass.hpp"

namespace bantam::inline v0 {

class SensitivityPass {
 public:
  SensitivityPass(const Checkpoint& checkpoint, const Recipe& recipe, const Calibration& calibration, Target target,
                  const SensitivityOptions& options, const ProgressFn& progress);

  [[nodiscard]] std::vector<Sensitivity> run();

 private:
  /// Hidden states of the windows with what takes one format changed.
  struct Variant {
    std::size_t result;
    std::size_t format;
    std::vector<float> states;
    WeightMatrix head;  ///< empty: the model's
    std::optional<LentStates> keys = {};  ///< of layers that it has run
  };
  /// Experts' matrices of a layer that take one format, under way.
  struct ExpertsUnit {
    std::size_t result = 0;
    std::vector<bool> runs;         ///< by format: whether it is
    std::vector<double> lost;       ///< by format: ||(W - W') X||^2, summed over matrices
    std::vector<LayerWeights> changed;  ///< by format: the layer, where norms are behind its experts
    std::vector<Variant> variants;  ///< by format, empty where it is not run
    double size = 0;                ///< ||W X||^2
  };
  /// Logits of a window are held three times.
  static constexpr std::int64_t longest_window = 256;

  void list_results(const Recipe& recipe, Target target);
  void choose_windows(const Calibration& calibration);
  void begin();
  void measure_block(std::int64_t layer);
  /// `hessian`: of what it reads; null for matrices of single heads, which are rounded to nearest by themselves.
  void measure_matrix(std::size_t result, const LayerWeights& block, std::int64_t layer, Hessian* hessian);
  /// One expert after the other, each by the tokens that are routed to it: what its changes add to the hidden states is added to
  /// those of the unchanged model.
  void measure_experts(const LayerWeights& block, std::int64_t layer);
  /// An expert's part in that. `outputs`: of the expert unchanged, for `visits`.
  void measure_expert(ExpertsUnit& unit, const LayerWeights& alone, std::int64_t layer, std::int64_t expert, Hessian& hessian,
                      std::span<const float> attended, std::span<const ExpertVisit> visits, std::span<const float> outputs);
  void finish();
  void add_divergences(const Variant& variant, Forward& head, std::size_t first, std::size_t tokens,
                       std::span<const float> base);
  void interpolate();
  [[nodiscard]] std::vector<float> embed(FunctionRef<void(TokenId, std::span<float>, RowCodes&)> read_row) const;
  /// `inputs`: of a second half, the states that the layer began with.
  void run_half(const LayerWeights& block, std::int64_t layer, Half half, std::vector<float>& states, LentStates& keys, std::span<const float> inputs = {});
  void run_block(const LayerWeights& block, std::int64_t layer, std::vector<float>& states, LentStates& keys);
  /// A matrix in a format, as the recipe's method rounds it. `weights`: of `original`.
  [[nodiscard]] WeightMatrix round(const CheckpointTensor& tensor, const WeightMatrix& original, const Tensor<float, 2>& weights,
                                   const FormatInfo& format, Hessian& hessian) const;
  /// Every `step`-th row of an embedding or a head.
  [[nodiscard]] Rounded round_table(std::size_t result, const FormatInfo& format, std::int64_t step) const;
  /// An embedding or a head in a format, its error noted; nothing where it is not to be run.
  [[nodiscard]] std::optional<Rounded> begin_table(std::size_t result, std::size_t format);
  /// An embedding or a head as the model has it: rotated, in f32.
  [[nodiscard]] WeightMatrix whole_table(const CheckpointTensor& tensor) const;
  /// Whether a matrix stays as it is in this format.
  [[nodiscard]] bool is_own(const CheckpointTensor& tensor, const FormatInfo& format) const noexcept {
    return !source_.rotated() && !is_pruned(recipe_, tensor) && &format == &tensor.format();
  }
  /// The matrix of a result; of several the first.
  [[nodiscard]] const CheckpointTensor& tensor_of(std::size_t result) const noexcept { return *members_[result].front(); }
  void report(const std::string& name);

  const ModelSource source_;
  const Checkpoint& checkpoint_;  ///< the source's
  const Recipe recipe_;
  const SensitivityOptions& options_;
  const ProgressFn& progress_;
  std::vector<Sensitivity> results_;
  std::vector<std::vector<const CheckpointTensor*>> members_;  ///< matrices of the results
  RoundingPass pass_;
  std::vector<std::vector<TokenId>> windows_;
  std::vector<float> base_;  ///< hidden states of the unchanged model, (tokens of all windows, ModelConfig::state_dim())
  LentStates keys_;          ///< of the unchanged model
  BesideEmbeddings embeddings_;
  ResidualStreams streams_;
  std::vector<Variant> variants_;
  ModelWeights none_;
  std::unique_ptr<Forward> forward_;
  std::int64_t done_ = 0;
  Stopwatch watch_;
};

/// Which of the formats, coarsest first, are measured: floats only where there is nothing else, trellises, whose search takes longest, only where
/// there are no others but floats.
[[nodiscard]] std::vector<bool> measured_formats(const std::vector<FormatCost>& formats, int count);
/// The same of embeddings and heads: all that are rounded without a search, and the coarsest of those that are not trellises.
[[nodiscard]] std::vector<bool> measured_of_tables(const std::vector<FormatCost>& formats);
/// ||(W - W') X||^2 for second moments of X.
[[nodiscard]] double squared_loss(const Tensor<float, 2>& weights, const WeightMatrix& rounded, const Tensor<float, 2>& moments);

}  // namespace bantam::inline v0
