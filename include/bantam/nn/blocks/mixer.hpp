// The block of a layer's first half, whichever it is: the one in which the tokens of a sequence see each other.
#pragma once

#include <limits>
#include <utility>

#include "bantam/nn/activations.hpp"
#include "bantam/nn/blocks/attention_kinds.hpp"
#include "bantam/nn/blocks/pass.hpp"
#include "bantam/nn/blocks/weights.hpp"
#include "bantam/nn/chosen_tokens.hpp"

namespace bantam::inline v0::nn {

/// The input group of a block that a pass stops at, by its number in the block's table.
inline constexpr int to_the_end = std::numeric_limits<int>::max();

class Mixer {
 public:
  virtual ~Mixer() = default;
  /// Weights that run() will be asked for; x is what the first input group reads.
  virtual void serve(const LayerWeights& w, Activations& x) = 0;
  /// Room for a pass of these sequences, of so many tokens together.
  virtual void plan(std::int64_t tokens, std::span<const PassSequence> sequences) = 0;
  /// Room for what adapters add beyond linear(), in a pass that was planned: so many terms, of `ranks` as LowRankTerms has them.
  virtual void resize_terms(std::size_t /*terms*/, std::int64_t /*ranks*/) {}
  /// What follows from some rows' positions, for all layers.
  virtual void find_angles(std::span<const PassRow> rows, Range part) noexcept = 0;
  [[nodiscard]] virtual Readers readers(const LayerWeights& w) const noexcept = 0;
  /// out = block(x), or as far as what input group `until` reads. x: (tokens, dim), ready for its readers. out: (tokens, dim). Throws what the pass's
  /// more_keys throws, and out_of_memory where there are such.
  virtual void run(const Pass& pass, const LayerWeights& w, const MixerLayer& layer, const Activations& x, OutputRows out, int until) = 0;
  /// What an input group behind the first reads, after run().
  [[nodiscard]] virtual Activations& inputs(int group) noexcept = 0;
  /// What an indexer chose for so many rows in run(), for a layer that is run later and sees the same; and that, between plan() and run().
  virtual void keep_choice(std::int64_t /*rows*/, KeptChoice& /*kept*/) const {}
  virtual void take_choice(const KeptChoice& /*kept*/) {}
};

/// A block with its weights' place in a layer.
template <class Block, auto weights>
class MixerOf final : public Mixer {
 public:
  template <class... Args>
  explicit MixerOf(Args&&... args) : block_(std::forward<Args>(args)...) {}

  void serve(const LayerWeights& w, Activations& x) override { block_.serve(w.*weights, x); }
  void plan(std::int64_t tokens, std::span<const PassSequence> sequences) override { block_.plan(tokens, sequences); }
  void resize_terms(std::size_t terms, std::int64_t ranks) override {
    if constexpr (requires { block_.resize_terms(terms, ranks); }) block_.resize_terms(terms, ranks);
  }
  void find_angles(std::span<const PassRow> rows, Range part) noexcept override { block_.find_angles(rows, part); }
  [[nodiscard]] Readers readers(const LayerWeights& w) const noexcept override { return Block::readers(w.*weights); }
  void run(const Pass& pass, const LayerWeights& w, const MixerLayer& layer, const Activations& x, OutputRows out, int until) override {
    block_.run(pass, w.*weights, layer, x, out, until);
  }
  [[nodiscard]] Activations& inputs(int group) noexcept override { return block_.inputs(group); }
  void keep_choice(std::int64_t rows, KeptChoice& kept) const override {
    if constexpr (requires { block_.keep_choice(rows, kept); }) block_.keep_choice(rows, kept);
  }
  void take_choice(const KeptChoice& kept) override {
    if constexpr (requires { block_.take_choice(kept); }) block_.take_choice(kept);
  }

 private:
  Block block_;
};

}  // namespace bantam::inline v0::nn
