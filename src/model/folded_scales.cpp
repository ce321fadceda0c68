// Scales of a model in its weights.
#include "bantam/model/checkpoint.hpp"
#include "sources/transforms.hpp"

namespace bantam::inline v0 {

namespace {

/// What the rows of a state space's input projection are multiplied by: z; x, B and C; dt.
std::vector<float> space_factors(const ModelConfig& c) {
  const nn::RecurrentLayer& r = c.recurrent;
  const std::int64_t inner = r.value_heads * r.value_dim, of_keys = r.key_heads * r.key_dim, counts[] = {inner, inner, of_keys, of_keys, r.value_heads};
  std::vector<float> factors;
  for (std::size_t part = 0; part < c.scales.space.size(); ++part) {
    factors.insert(factors.end(), static_cast<std::size_t>(counts[part]), static_cast<float>(c.scales.space_in * c.scales.space[part]));
  }
  return factors;
}

/// What a tensor's rows are multiplied by: one factor for all, or one for each.
std::vector<float> factors_of(Role role, const ModelConfig& c) {
  const ModelScales& s = c.scales;
  const auto all = [](double factor) { return std::vector{static_cast<float>(factor)}; };
  switch (role) {
    case Role::embedding: return all(s.embedding);
    // Logits follow the norm before the head, which may be the embedding.
    case Role::final_norm: return all(s.logits / (c.tied ? s.embedding : 1));
    case Role::q:
    case Role::v: return all(s.attention_in);
    case Role::k: return all(s.attention_in * s.keys);
    case Role::o: return all(s.attention_out);
    case Role::state_in: return space_factors(c);
    case Role::state_out: return all(s.space_out);
    case Role::gate: return all(s.gate);
    case Role::down: return all(s.down);
    default: return all(1);
  }
}

}  // namespace

Checkpoint Checkpoint::with_folded_scales() const {
  Checkpoint c = *this;
  if (!config_.arch->folds_scales) return c;
  for (CheckpointTensor& tensor : c.tensors_) {
    std::vector<float> factors = factors_of(tensor.role, config_);
    if (std::ranges::any_of(factors, [](float factor) { return factor != 1; })) tensor.source = scaled(std::move(tensor.source), std::move(factors));
  }
  c.config_.scales = {};
  c.weights_ = nullptr;  // they are other ones
  return c;
}

}  // namespace bantam::inline v0
