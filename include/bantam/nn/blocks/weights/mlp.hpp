// The weights of an MLP.
#pragma once

#include "bantam/nn/blocks/table.hpp"

namespace bantam::inline v0::nn {

/// down(act(gate x) * up x), a bias added to what each matrix makes: an MLP, or one expert.
struct MlpWeights {
  WeightMatrix gate, up;                            ///< (ffn, dim)
  WeightMatrix down;                                ///< (dim, ffn)
  std::vector<float> gate_bias = {}, up_bias = {};  ///< (ffn)
  std::vector<float> down_bias = {};                ///< (dim)
  std::vector<float> down_norm = {};                ///< (ffn), of an RMS norm of what `down` reads; empty: there is none
  float limit = 0;                                  ///< of ops::limited_gate(); 0: there is none
  /// What of `gate x` is not above its mean by so many deviations counts as 0, the rest from there on (Spark Transformer's statistical top-k,
  /// arXiv:2506.06644, as Gemma 3n has it); none: all count.
  std::optional<float> gate_cutoff = {};
  std::vector<float> xielu_positive = {}, xielu_negative = {}, xielu_slope = {}, xielu_limit = {};  ///< (1) each, where the activation is ops::Gate::xielu
};

inline constexpr BlockWeight<MlpWeights> mlp_table[] = {
    {Role::gate, WeightAxis::ffn, WeightAxis::dim, &MlpWeights::gate},
    {Role::up, WeightAxis::ffn, WeightAxis::dim, &MlpWeights::up},
    {Role::down, WeightAxis::dim, WeightAxis::ffn, &MlpWeights::down},
    {Role::gate_bias, WeightAxis::one, WeightAxis::ffn, &MlpWeights::gate_bias, Role::gate},
    {Role::up_bias, WeightAxis::one, WeightAxis::ffn, &MlpWeights::up_bias, Role::up},
    {Role::down_bias, WeightAxis::one, WeightAxis::dim, &MlpWeights::down_bias, Role::down},
    {Role::down_norm, WeightAxis::one, WeightAxis::ffn, &MlpWeights::down_norm},
    {Role::xielu_positive, WeightAxis::one, WeightAxis::one, &MlpWeights::xielu_positive},
    {Role::xielu_negative, WeightAxis::one, WeightAxis::one, &MlpWeights::xielu_negative},
    {Role::xielu_slope, WeightAxis::one, WeightAxis::one, &MlpWeights::xielu_slope},
    {Role::xielu_limit, WeightAxis::one, WeightAxis::one, &MlpWeights::xielu_limit},
};

inline constexpr Role mlp_readers[] = {Role::gate, Role::up}, down_reader[] = {Role::down};
inline constexpr BlockInputs mlp_inputs[] = {
    {.name = "gate and up", .roles = mlp_readers},
    {.name = "down", .roles = down_reader, .source = Role::up, .norm = Role::down_norm, .adds = true},  // the gate multiplies what up makes
};

}  // namespace bantam::inline v0::nn
