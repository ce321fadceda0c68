// The pass over a model's blocks: what each reads of the calibration text, and what it makes of it.
#pragma once

#include <memory>
#include <optional>

#include "bantam/calibrate/calibration.hpp"
#include "bantam/calibrate/hessian.hpp"
#include "bantam/calibrate/observers.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/model/forward.hpp"
#include "beside_states.hpp"
#include "expert_inputs.hpp"
#include "model_source.hpp"
#include "residual_streams.hpp"

namespace bantam::inline v0 {

/// Carries the calibration tokens' hidden states through blocks, whatever is made of these on the way. Memory: the hidden states,
/// twice where an original is carried besides, the Hessians that are asked for, and up to 256 MiB of inputs that would otherwise
/// be made twice, whatever the depth.
class BlockPass {
 public:
  /// Without `judged` the calibration's held-out tokens are left alone.
  BlockPass(const ModelSource& source, const Calibration& calibration, bool judged = false);

  /// Adds up what every input group reads, with these weights; the hidden states stay where they are.
  [[nodiscard]] std::vector<Hessian> observe_all(const LayerWeights& block, std::int64_t layer);
  /// The same of some of input_groups() alone, by number, ascending.
  [[nodiscard]] std::vector<Hessian> observe_some(const LayerWeights& block, std::int64_t layer, std::span<const std::size_t> groups);
  /// Over a block of any shapes up to the config's. In order: each call goes on where the last one ended.
  void advance_over(const LayerWeights& block, std::int64_t layer);
  /// Half of that.
  void advance(const LayerWeights& block, std::int64_t layer, Half half);
  /// The experts that the tokens of all samples go to in the half that the states have come to: (tokens, used).
  [[nodiscard]] std::vector<nn::RoutedExpert> route(const LayerWeights& block, std::int64_t layer);
  /// Adds up what an expert, alone, reads there, by group; of tokens of others, too, where its own are too few. `of_all`: what gate and
  /// up of every expert of the layer read of all tokens, made when it is first wanted.
  [[nodiscard]] Hessian observe_expert(const LayerWeights& alone, std::int64_t layer, std::size_t group, const ExpertInputs& expert, std::optional<Hessian>& of_all);
  /// The mean over the tokens routed to each expert of the half that the states have come to of weight * |what it adds|, or with
  /// `frequency` how many tokens there are; 0 where there are none.
  [[nodiscard]] std::vector<double> expert_worth(const LayerWeights& block, std::int64_t layer, bool frequency);
  /// (tokens of all samples, ModelConfig::state_dim()): what the next block reads; those held out last.
  [[nodiscard]] std::span<const float> states() const noexcept { return hidden_; }
  /// How many of them are not held out.
  [[nodiscard]] std::int64_t fitted_tokens() const noexcept { return static_cast<std::int64_t>(fitted_) / checkpoint_.config().state_dim(); }
  [[nodiscard]] std::span<const float> held_out_states() const noexcept { return std::span(hidden_).subspan(fitted_); }

  /// From here on two models are carried, both with their hidden states rotated: the original, and this one, of whose numbers
  /// those after the first `kept` are 0.
  void project(const Rotation& rotation, std::int64_t kept);
  /// The original's states, where there are two.
  [[nodiscard]] std::span<const float> original_states() const noexcept { return original_; }
  /// The same without a rotation: the two begin to differ after this.
  void follow() {
    original_ = hidden_;
    original_keys_ = keys_;
  }
  /// Carries the original's states, if they are carried, over half of a block that this model does not have.
  void advance_original(const LayerWeights& original, std::int64_t layer, Half half);
  /// Adds up what a group reads, by number, in the half of a block that the states have come to; they stay there.
  [[nodiscard]] Hessian observe_here(const LayerWeights& block, std::int64_t layer, std::size_t group);
  struct Observed {
    Hessian hessian;
    /// What the original model has beside this one, times these inputs, summed over tokens: of the hidden states that the group adds
    /// to, after it, (dim, columns); else of the inputs themselves, (columns, columns). Empty without an original.
    Tensor<float, 2> input_error;
  };
  /// The same where nothing that makes these inputs changes before advance(), which may then use them again. With `original`, which has
  /// no `scales` folded in, the error of the inputs, too: each group once a block and in order, for the original's states move on with those that add.
  [[nodiscard]] Observed observe(const LayerWeights& block, std::int64_t layer, std::size_t group, const LayerWeights* original = nullptr,
                               std::span<const float> scales = {});

 protected:
  const ModelSource& source_;
  const Checkpoint& checkpoint_;            ///< the source's
  std::vector<std::vector<float>> judges_;  ///< what outputs are judged by, (tokens, columns) by input group, of the block
  std::vector<Histogram<float>> seen_;      ///< of the block's inputs, by input group

 private:
  /// What a group reads in the original model, over `scales`, (columns, tokens). `hidden`: our states, to find its by.
  [[nodiscard]] Tensor<float, 2> original_inputs(const LayerWeights& original, std::int64_t layer, std::size_t group, std::span<const float> scales,
                                                 std::span<const float> hidden);
  /// The original model's states of the same sample.
  [[nodiscard]] std::span<float> original_of(std::span<const float> hidden);
  /// What the hidden states would lack beside the original model's if the group's matrix, as it is by now, added what it makes
  /// of its inputs x, (tokens, columns): (dim, tokens). The original's are over this half already.
  [[nodiscard]] Tensor<float, 2> lacking(const LayerWeights& block, std::size_t group, std::span<const float> hidden, TensorView<const float, 2> x);
  /// Calls f with the hidden states of each sample.
  template <class F>
  void for_each_sample(F&& f) {
    std::int64_t first = 0;
    sample_ = {};
    for (const std::int64_t length : lengths_) {
      check_cancelled();
      const std::int64_t width = checkpoint_.config().state_dim();
      sample_.tokens = std::span(tokens_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(length));
      sample_.first = static_cast<std::size_t>(first * width);
      f(std::span(hidden_).subspan(static_cast<std::size_t>(first * width), static_cast<std::size_t>(length * width)));
      first += length;
      ++sample_.number;
    }
  }
  /// What half of a layer reads beside the hidden states of the sample at hand, of this model or the original; `keeps`: see LentStates.
  [[nodiscard]] BesideStates beside(std::int64_t layer, Half half, LentStates& keys, bool keeps = false) {
    const std::vector<float>& source = &keys == &keys_ ? source_states_ : original_source_states_;
    const std::vector<float>& inputs = &keys == &keys_ ? inputs_ : original_inputs_;
    BesideStates beside{.embeddings = embeddings_.of(layer, half, sample_.tokens)};
    if (half == Half::mixer) keys.lend(layer, sample_.number, keeps, beside);
    if (half == Half::feed_forward && !inputs.empty()) beside.layer_inputs = std::span(inputs).subspan(sample_.first, sample_.tokens.size() * static_cast<std::size_t>(checkpoint_.config().dim));
    if (half == Half::cross && !source.empty()) beside.source = std::span(source).subspan(sample_.first, sample_.tokens.size() * static_cast<std::size_t>(checkpoint_.config().dim));
    return beside;
  }
  void embed(Stack stack);
  /// Before anything is done with a layer. Where a decoder begins behind an encoder, what that made is kept, normed, for it to read.
  void enter(std::int64_t layer);
  /// Leaves the states of the sample at hand, which a layer is about to read, to its router, where that reads them.
  void keep_inputs(std::span<const float> states, std::vector<float>& inputs);
  /// Keeps what a group reads of the tokens that outputs are judged by.
  void keep_judges(std::size_t group, std::span<const float> hidden, TensorView<const float, 2> inputs);
  /// Whether both halves of a block read the same state.
  [[nodiscard]] bool parallel() const noexcept { return checkpoint_.config().arch->parallel; }
  [[nodiscard]] bool is_held_out(std::span<const float> hidden) const noexcept { return hidden.data() >= hidden_.data() + fitted_; }
  /// Counts what a group reads in its histogram.
  void count(std::size_t group, TensorView<const float, 2> inputs);

  std::vector<std::int64_t> lengths_;  ///< tokens of each sample
  std::vector<TokenId> tokens_;        ///< of all of them
  struct Sample {
    std::size_t number = 0;
    std::span<const TokenId> tokens;
    std::size_t first = 0;  ///< number among all states
  };
  Sample sample_;                      ///< at hand
  LentStates keys_, original_keys_;    ///< the second where the original is followed
  BesideEmbeddings embeddings_;
  std::vector<float> inputs_, original_inputs_;  ///< as many as hidden states: what the layer under way read, where its router does; else empty
  std::vector<float> source_states_, original_source_states_;  ///< what an encoder made of all samples, once a decoder behind it has begun
  ResidualStreams streams_;
  std::vector<float> hidden_;          ///< (tokens of all samples, ModelConfig::state_dim()), those held out last
  std::size_t fitted_ = 0;             ///< numbers of `hidden_` that are not held out
  bool judged_;                        ///< whether outputs are
  std::vector<float> kept_;            ///< what observe() saw o or down read, for advance(); empty: unknown, or too much
  std::vector<float> original_;        ///< `hidden_` of the original model, where it is followed
  ModelWeights none_;                  ///< Forward holds on to a model's weights; blocks come one by one
  std::unique_ptr<Forward> forward_;
};

}  // namespace bantam::inline v0
