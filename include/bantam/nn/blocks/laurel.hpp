// A low-rank residual branch beside a block (LAuReL, arXiv:2411.07501; Gemma 3n).
#pragma once

#include "bantam/nn/blocks/pass.hpp"
#include "bantam/nn/blocks/weights/laurel.hpp"
#include "bantam/nn/linear.hpp"

namespace bantam::inline v0::nn {

/// The block with its buffer.
class Laurel {
 public:
  explicit Laurel(const KernelTable& kernels) : kernels_(kernels) {}

  /// Weights that run() will be asked for; x is what the first reads.
  void serve(const LaurelWeights& w, Activations& x) {
    if (w.left.empty()) return;
    x.serve(kernels_, w.left);
    hidden_.serve(kernels_, w.right);
  }
  void resize(std::int64_t tokens, std::int64_t rank) { hidden_.resize(tokens, rank); }

  /// out = right left x, whose norm and x itself are added behind it. x: (tokens, dim), ready for floats; out: (tokens, dim).
  void run(const Pass& pass, const LaurelWeights& w, const Activations& x, OutputRows out) noexcept {
    linear(pass, x, {{w.left, nullptr, hidden_.output()}});
    linear(pass, hidden_, {{w.right, nullptr, out}});
  }

 private:
  const KernelTable& kernels_;
  Activations hidden_;  ///< (tokens, rank)
};

}  // namespace bantam::inline v0::nn
