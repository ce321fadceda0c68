// The pass over a model's blocks: what each reads, its weights rounded for that, and what the next one reads then.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "bantam/compress/compress.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/model/forward.hpp"
#include "expert_inputs.hpp"
#include "fold.hpp"
#include "model_source.hpp"
#include "rounding.hpp"

namespace bantam::inline v0 {

/// Whether the method folds scales into what makes the inputs: SmoothQuant's, AWQ's.
[[nodiscard]] bool folds_scales(const Recipe& recipe) noexcept;

/// Carries the calibration tokens' hidden states through the blocks of a checkpoint. Memory: the hidden states, one block
/// before and after, one of the four Hessians of its inputs, or one expert's, at a time (all of them for AWQ's scales, and where the
/// recipe is not truly sequential), and up to 256 MiB of inputs that would otherwise be made twice, whatever the depth. Where
/// the recipe follows the original model, the states twice, a block more and another Hessian's size.
class BlockPass {
 public:
  /// Without `judged` the calibration's held-out tokens are left alone.
  BlockPass(const ModelSource& source, const Recipe& recipe, const Calibration& calibration, bool judged = false);

  /// What the recipe's method makes of block `layer`. In order: each call goes on where the last one ended.
  [[nodiscard]] RoundedBlock round_block(std::int64_t layer);
  /// In place of round_block, where its result is known; without one the block stays as it is.
  void skip_block(std::int64_t layer, const RoundedBlock& done);

  /// What the method makes of one matrix, AWQ's scales aside. `last`: nothing reads the Hessian after this.
  [[nodiscard]] WeightMatrix round(const std::string& name, const WeightMatrix& matrix, Hessian& hessian, bool last,
                                   const FormatInfo& format, Role role, std::vector<std::string>& warnings,
                                   Tensor<float, 2>&& pull = {}) const;
  /// Adds up what every input group reads, with these weights; the hidden states stay where they are.
  [[nodiscard]] std::vector<Hessian> observe_all(const LayerWeights& block, std::int64_t layer);
  /// The same of some of input_groups() alone, by number, ascending.
  [[nodiscard]] std::vector<Hessian> observe_some(const LayerWeights& block, std::int64_t layer, std::span<const std::size_t> groups);
  /// In place of round_block, for a block of any shapes up to the config's.
  void advance_over(const LayerWeights& block, std::int64_t layer);
  /// Half of that, BlockStage::attention or mlp.
  void advance(const LayerWeights& block, std::int64_t layer, BlockStage half);
  /// The experts that the tokens of all samples go to in the half that the states have come to: (tokens, used).
  [[nodiscard]] std::vector<nn::RoutedExpert> route(const LayerWeights& block, std::int64_t layer);
  /// Adds up what an expert, alone, reads there, by group; of tokens of others, too, where its own are too few. `of_all`: what gate and
  /// up of every expert of the layer read of all tokens, made when it is first wanted.
  [[nodiscard]] Hessian observe_expert(const LayerWeights& alone, std::int64_t layer, std::size_t group, const ExpertInputs& expert, std::optional<Hessian>& of_all);
  /// The mean over the tokens routed to each expert of the half that the states have come to of weight * |what it adds|, or with
  /// `frequency` how many tokens there are; 0 where there are none.
  [[nodiscard]] std::vector<double> expert_worth(const LayerWeights& block, std::int64_t layer, bool frequency);
  /// (tokens of all samples, dim): what the next block reads; those held out last.
  [[nodiscard]] std::span<const float> states() const noexcept { return hidden_; }
  /// How many of them are not held out.
  [[nodiscard]] std::int64_t fitted_tokens() const noexcept { return static_cast<std::int64_t>(fitted_) / checkpoint_.config().dim; }
  [[nodiscard]] std::span<const float> held_out_states() const noexcept { return std::span(hidden_).subspan(fitted_); }

  /// From here on two models are carried, both with their hidden states rotated: the original, and this one, of whose numbers
  /// those after the first `kept` are 0.
  void project(const Rotation& rotation, std::int64_t kept);
  /// The original's states, where there are two.
  [[nodiscard]] std::span<const float> original_states() const noexcept { return original_; }
  /// The same without a rotation: the two begin to differ after this.
  void follow() { original_ = hidden_; }
  /// Carries the original's states, if they are carried, over half of a block that this model does not have.
  void advance_original(const LayerWeights& original, std::int64_t layer, BlockStage half);
  /// Adds up what a group reads, by number, in the half of a block that the states have come to; they stay there.
  [[nodiscard]] Hessian observe_here(const LayerWeights& block, std::int64_t layer, std::size_t group);
  struct Beside {
    Hessian hessian;
    Tensor<float, 2> drift;  ///< as observe() says
  };
  /// Of one of input_groups(), by number; each once a block and in order, for the original's states move on with those that add.
  [[nodiscard]] Beside observe_beside(const LayerWeights& block, const LayerWeights& original, std::int64_t layer, std::size_t group);

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
  void round_group(Work& work, std::size_t group, Hessian& hessian, Tensor<float, 2>& drift, RoundedBlock& result);
  /// Rounds the matrices of single heads, which are in no input group, to nearest.
  void round_ungrouped(Work& work, RoundedBlock& result);
  /// Rounds the experts of a block, one after the other: each is the MLP of a block of its own, for the tokens that are routed to it.
  void round_experts(Work& work, std::int64_t layer, RoundedBlock& result);
  /// The block to follow. In bytes where what follows it will have far fewer bits: what they lose is little beside that, and
  /// their products are several times as fast as those of floats (docs/numbers.md).
  [[nodiscard]] LayerWeights original(const Work& work, std::int64_t layer) const;
  /// Finds the scales of every input group, SmoothQuant's or AWQ's, and folds them in, in the Hessians too.
  void scale(Work& work, std::vector<Hessian>& hessians);
  /// Adds up what an input group reads, of the weights as they are by now. In `drift`, if asked, what the original model
  /// has beside this one, times these inputs, summed over tokens: of the hidden states that the group adds to, after it, for
  /// which the original's are carried over this half, (dim, columns); else of the inputs themselves, (columns, columns).
  [[nodiscard]] Hessian observe(Work& work, std::int64_t layer, std::size_t group, Tensor<float, 2>* drift);
  /// What a group reads in the original model, over AWQ's scales, (columns, tokens). `hidden`: our states, to find its by.
  [[nodiscard]] Tensor<float, 2> original_inputs(const Work& work, std::int64_t layer, std::size_t group, std::span<const float> hidden);
  /// The original model's states of the same sample.
  [[nodiscard]] std::span<float> original_of(std::span<const float> hidden);
  /// What the hidden states would lack beside the original model's if the group's matrix, as it is by now, added what it makes
  /// of its inputs x, (tokens, columns): (dim, tokens). The original's are over this half already.
  [[nodiscard]] Tensor<float, 2> lacking(const Work& work, std::size_t group, std::span<const float> hidden, TensorView<const float, 2> x);
  /// What the outputs of a matrix lack, as far as that is made good, times its inputs. Uses up the drift of a single reader.
  [[nodiscard]] Tensor<float, 2> pull_of(const WeightMatrix& matrix, std::size_t group, Tensor<float, 2>& drift) const;
  /// Calls f with the hidden states of each sample.
  template <class F>
  void for_each_sample(F&& f) {
    std::int64_t first = 0;
    for (const std::int64_t length : lengths_) {
      check_cancelled();
      const std::int64_t dim = checkpoint_.config().dim;
      f(std::span(hidden_).subspan(static_cast<std::size_t>(first * dim), static_cast<std::size_t>(length * dim)));
      first += length;
    }
  }
  /// Keeps what a group reads of the tokens that outputs are judged by.
  void keep_judges(std::size_t group, std::span<const float> hidden, TensorView<const float, 2> inputs);
  /// Adds the error of outputs.
  [[nodiscard]] Rounded judged(Rounded&& rounded, const WeightMatrix& original, std::size_t group) const;
  /// Whether both halves of a block read the same state.
  [[nodiscard]] bool parallel() const noexcept { return checkpoint_.config().arch->parallel; }
  [[nodiscard]] bool is_held_out(std::span<const float> hidden) const noexcept { return hidden.data() >= hidden_.data() + fitted_; }
  /// Counts what a group reads in its histogram.
  void count(std::size_t group, TensorView<const float, 2> inputs);

  const ModelSource& source_;
  const Checkpoint& checkpoint_;  ///< the source's
  const Recipe& recipe_;
  std::vector<std::int64_t> lengths_;  ///< tokens of each sample
  std::vector<float> hidden_;          ///< (tokens of all samples, dim), those held out last
  std::size_t fitted_ = 0;             ///< numbers of `hidden_` that are not held out
  bool judged_;                        ///< whether outputs are
  std::vector<std::vector<float>> judges_;  ///< (tokens, columns) by input group, of the block
  std::vector<float> kept_;            ///< what observe() saw o or down read, for advance(); empty: unknown, or too much
  std::vector<float> original_;        ///< `hidden_` of the original model, where it is followed
  ModelWeights none_;                  ///< Forward holds on to a model's weights; blocks come one by one
  std::unique_ptr<Forward> forward_;
  nn::KvCache cache_;
  std::vector<Histogram<float>> seen_;  ///< of the block's inputs, by input group
};

}  // namespace bantam::inline v0
