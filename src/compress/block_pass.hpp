// The pass over a model's blocks: what each reads, its weights rounded for that, and what the next one reads then.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "bantam/compress/compress.hpp"
#include "bantam/model/forward.hpp"
#include "fold.hpp"
#include "model_source.hpp"
#include "rounding.hpp"

namespace bantam::inline v0 {

/// Carries the calibration tokens' hidden states through the blocks of a checkpoint. Memory: the hidden states, one block
/// before and after, one of the four Hessians of its inputs at a time (all of them for AWQ's scales, and where the
/// recipe is not truly sequential), and up to 1 GiB of inputs that would otherwise be made twice, whatever the depth. Where
/// the recipe follows the original model, the states twice, a block more and another Hessian's size.
class BlockPass {
 public:
  BlockPass(const ModelSource& source, const Recipe& recipe, const Calibration& calibration);

  /// What the recipe's method makes of block `layer`. In order: each call goes on where the last one ended.
  [[nodiscard]] RoundedBlock round_block(std::int64_t layer);
  /// In place of round_block, where its result is known; without one the block stays as it is.
  void skip_block(std::int64_t layer, const RoundedBlock& done);

  /// What the method makes of one matrix, AWQ's scales aside. `last`: nothing reads the Hessian after this.
  [[nodiscard]] WeightMatrix round(const std::string& name, const Tensor<float, 2>& weights, Hessian& hessian, bool last,
                                   const FormatInfo& format, Role role, std::vector<std::string>& warnings,
                                   const Tensor<float, 2>& pull = {}) const;
  /// Adds up what every group of readers reads, with these weights; the hidden states stay where they are.
  [[nodiscard]] std::vector<Hessian> observe_all(const LayerWeights& block, std::int64_t layer);
  /// The same of some of readers() alone, by number, ascending.
  [[nodiscard]] std::vector<Hessian> observe_some(const LayerWeights& block, std::int64_t layer, std::span<const std::size_t> groups);
  /// In place of round_block, for a block of any shapes up to the config's.
  void advance_over(LayerWeights block, std::int64_t layer);
  /// (tokens of all samples, dim): what the next block reads.
  [[nodiscard]] std::span<const float> states() const noexcept { return hidden_; }

 private:
  /// Rounds what pruning has left, if any; not by GPTQ.
  [[nodiscard]] WeightMatrix round_left(const Tensor<float, 2>& weights, const Hessian& hessian, const FormatInfo& format, Role role) const;
  /// A block under way.
  struct Work {
    ModelWeights weights;               ///< of one layer, as they are by now
    std::map<Role, std::string> names;  ///< of its matrices
    std::set<Role> copied;              ///< matrices already in the format that they will have, and not one of floats
    std::set<Role> changed;             ///< before rounding no longer the checkpoint's; vectors, too
    std::map<std::size_t, std::vector<float>> scales;  ///< folded in, by group of readers
    LayerWeights original;              ///< as begun with, where it is followed
  };
  [[nodiscard]] Work begin(std::int64_t layer) const;
  /// Finds the scales of every group of readers, SmoothQuant's or AWQ's, and folds them in, in the Hessians too.
  void scale(Work& work, std::vector<Hessian>& hessians) const;
  /// Adds up what a group of readers reads, of the weights as they are by now. In `drift`, if asked, what the original model
  /// has beside this one, times these inputs, summed over tokens: of the hidden states that the group adds to, as they ought
  /// to be after it, (dim, columns); where it adds to none, of the inputs themselves, (columns, columns).
  [[nodiscard]] Hessian observe(Work& work, std::int64_t layer, std::size_t group, Tensor<float, 2>* drift);
  /// What a group reads in the original model, over AWQ's scales, (columns, tokens). `hidden`: our states, to find its by;
  /// `keeps`: as they are for advance(), too.
  [[nodiscard]] Tensor<float, 2> original_inputs(const Work& work, std::int64_t layer, std::size_t group, std::span<const float> hidden,
                                                 bool keeps);
  /// The original model's states of the same sample.
  [[nodiscard]] std::span<float> original_of(std::span<const float> hidden);
  /// What the outputs of a matrix lack, as far as that is made good, times its inputs.
  [[nodiscard]] Tensor<float, 2> pull_of(const Tensor<float, 2>& weights, std::size_t group, const Tensor<float, 2>& drift) const;
  /// Carries the hidden states over half of the block, those of the original model over its own;
  /// from what observe() kept, if anything.
  void advance(const Work& work, std::int64_t layer, BlockStage half);
  template <class F>
  void for_each_sample(F&& f);
  /// Counts what a group reads in its histogram.
  void count(std::size_t group, TensorView<const float, 2> inputs);

  const ModelSource& source_;
  const Checkpoint& checkpoint_;  ///< the source's
  const Recipe& recipe_;
  std::vector<std::int64_t> lengths_;  ///< tokens of each sample
  std::vector<float> hidden_;          ///< (tokens of all samples, dim)
  std::vector<float> kept_;            ///< what o or down reads, of all samples; empty: unknown, or too much
  std::vector<float> original_;        ///< `hidden_` of the original model, where it is followed
  std::vector<float> kept_original_;   ///< `kept_` of it
  ModelWeights none_;                  ///< Forward holds on to a model's weights; blocks come one by one
  std::unique_ptr<Forward> forward_;
  nn::KvCache cache_;
  std::vector<Histogram<float>> seen_;  ///< of the block's inputs, by group of readers
};

}  // namespace bantam::inline v0
