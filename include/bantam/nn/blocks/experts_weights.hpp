// The weights of a mixture of experts.
#pragma once

#include <vector>

#include "bantam/quant/weights.hpp"

namespace bantam::inline v0::nn {

/// One expert: down(act(gate x) * up x), a bias added to what each matrix makes.
struct ExpertWeights {
  WeightMatrix gate, up;                          ///< (ffn, dim)
  WeightMatrix down;                              ///< (dim, ffn)
  std::vector<float> gate_bias = {}, up_bias = {};  ///< (ffn), or empty
  std::vector<float> down_bias = {};                ///< (dim), or empty
};

struct ExpertsWeights {
  WeightMatrix router;                ///< (experts, dim), of floats: a choice that flips costs more than their bytes
  std::vector<float> router_bias;     ///< (experts), or empty
  std::vector<float> selection_bias;  ///< (experts), or empty: see Router
  std::vector<float> shared_gate;     ///< (dim), or empty: what was there before the experts counts by sigmoid(shared_gate x)
  std::vector<ExpertWeights> experts;
};

}  // namespace bantam::inline v0::nn
