// One expert of a mixture that works in a latent space, alone: as an MLP between the projections into that space and out of it.
#pragma once

#include "bantam/nn/blocks/mlp.hpp"
#include "bantam/nn/blocks/weights/experts.hpp"

namespace bantam::inline v0::nn {

/// The block with its buffers. Of the mixture's weights it reads latent_down and latent_up: out = latent_up mlp(latent_down x), which is
/// what Experts adds of one expert whose weight is 1.
class LatentExpert {
 public:
  LatentExpert(const KernelTable& kernels, ops::Gate gate) : kernels_(kernels), mlp_(kernels, gate) {}

  /// Weights that it will be asked for; x is what latent_down reads.
  void serve(const ExpertsWeights& w, const MlpWeights& expert, Activations& x) {
    x.serve(kernels_, w.latent_down);
    mlp_.serve(expert, narrow_);
    sums_.serve(kernels_, w.latent_up);
  }
  /// Room for passes of so many tokens.
  void resize(std::int64_t tokens, std::int64_t latent, std::int64_t ffn) {
    mlp_.resize(tokens, ffn);
    narrow_.resize(tokens, latent);
    sums_.resize(tokens, latent);
  }
  [[nodiscard]] static Readers readers(const ExpertsWeights& w) noexcept { return {&w.latent_down}; }
  /// What an input group of the MLP reads, by its number.
  [[nodiscard]] Activations& inputs(int group) noexcept { return group == 0 ? narrow_ : mlp_.hidden(); }

  /// The MLP's inputs. x: (tokens, dim), ready for its readers.
  void narrow(const Pass& pass, const ExpertsWeights& w, const MlpWeights& expert, const Activations& x) noexcept {
    linear(pass, x, {{w.latent_down, nullptr, narrow_.output()}});
    finish(pass, narrow_, Mlp::readers(expert));
  }
  /// What its down-projection reads.
  void hide(const Pass& pass, const MlpWeights& expert) noexcept { mlp_.hide(pass, expert, narrow_); }
  /// out: (tokens, dim).
  void project(const Pass& pass, const ExpertsWeights& w, const MlpWeights& expert, OutputRows out) noexcept {
    mlp_.project(pass, expert, sums_.output());
    finish(pass, sums_, {&w.latent_up});
    linear(pass, sums_, {{w.latent_up, nullptr, out}});
  }

 private:
  /// Rounds rows that are complete for those that read them.
  void finish(const Pass& pass, Activations& x, const Readers& readers) noexcept {
    pass.for_rows(Work::rounding, [&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) {
        x.quantize_row(kernels_, t);
        x.gather_row(kernels_, readers, t);
      }
    });
  }

  const KernelTable& kernels_;
  Mlp mlp_;
  Activations narrow_;  ///< (tokens, latent)
  Activations sums_;    ///< (tokens, latent): what latent_up reads
};

}  // namespace bantam::inline v0::nn
