// The pass over a model's blocks that rounds them: each for what it reads then.
#pragma once

#include <map>
#include <set>

#include "calibrate/block_pass.hpp"
#include "rounding.hpp"

namespace bantam::inline v0 {

/// Memory: besides the states one block before and after, one of the four Hessians of its inputs, or one expert's, at a time (all of
/// them for AWQ's scales, and where the recipe is not truly sequential). Where the recipe follows the original model, the states
/// twice, a block more and another Hessian's size.
class RoundingPass : public BlockPass {
 public:
  /// Without `judged` the calibration's held-out tokens are left alone.
  RoundingPass(const ModelSource& source, const Recipe& recipe, const Calibration& calibration, bool judged = false);

  /// What the recipe's method makes of block `layer`. In order: each call goes on where the last one ended.
  [[nodiscard]] RoundedBlock round_block(std::int64_t layer);
  /// In place of round_block, where its result is known; without one the block stays as it is.
  void skip_block(std::int64_t layer, const RoundedBlock& done);

  /// What the method makes of one matrix, AWQ's scales aside. `last`: nothing reads the Hessian after this.
  [[nodiscard]] WeightMatrix round(const std::string& name, const WeightMatrix& matrix, Hessian& hessian, bool last,
                                   const FormatInfo& format, Role role, std::vector<std::string>& warnings,
                                   Tensor<float, 2>&& residual = {}) const;

 private:
  /// Rounds what pruning has left, if any; not by GPTQ.
  [[nodiscard]] WeightMatrix round_left(const Tensor<float, 2>& weights, const Hessian& hessian, const FormatInfo& format, Role role) const;
  /// A block under way.
  struct Work {
    LayerWeights block;                 ///< as it is by now
    std::map<Role, const CheckpointTensor*> tensors;  ///< its matrices and vectors, those of experts left out
    std::set<Role> copied;              ///< matrices already in the format that they will have, and not one of floats
    std::set<Role> changed;             ///< before rounding no longer the checkpoint's; vectors, too
    std::map<std::size_t, std::vector<float>> scales;  ///< folded in, by input group
    LayerWeights original;              ///< as begun with, or close to it, where it is followed
  };
  [[nodiscard]] Work begin(std::int64_t layer) const;
  void add(Work& work, Role role, const CheckpointTensor& tensor) const;
  /// Rounds the matrices of an input group.
  void round_group(Work& work, std::size_t group, Observed& seen, RoundedBlock& result);
  /// Rounds the matrices of single heads, which are in no input group, to nearest.
  void round_ungrouped(Work& work, RoundedBlock& result);
  /// Rounds the experts of a block, one after the other: each is the MLP of a block of its own, for the tokens that are routed to it.
  void round_experts(Work& work, std::int64_t layer, RoundedBlock& result);
  /// The block to follow. In bytes where what follows it will have far fewer bits: what they lose is little beside that, and
  /// their products are several times as fast as those of floats (docs/numbers.md).
  [[nodiscard]] LayerWeights original(const Work& work, std::int64_t layer) const;
  /// Finds the scales of every input group, SmoothQuant's or AWQ's, and folds them in, in the Hessians too.
  void scale(Work& work, std::vector<Hessian>& hessians);
  /// What the outputs of a matrix lack, as far as that is made good, times its inputs. Uses up the input error of a single reader.
  [[nodiscard]] Tensor<float, 2> residual_of(const WeightMatrix& matrix, std::size_t group, Tensor<float, 2>& input_error) const;
  /// Adds the error of outputs.
  [[nodiscard]] Rounded judged(Rounded&& rounded, const WeightMatrix& original, std::size_t group) const;

  const Recipe& recipe_;
};

}  // namespace bantam::inline v0
