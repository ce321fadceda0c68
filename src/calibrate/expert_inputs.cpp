// Experts alone, and which tokens they see.
#include "expert_inputs.hpp"

#include <algorithm>

#include "bantam/core/parallel.hpp"

namespace bantam::inline v0 {

namespace {

/// Experts that see fewer tokens than their matrices have columns take what they lack from the layer's other tokens: of what gate and up
/// read from all of them, of what down reads, for which they go through the expert, from so many.
constexpr std::int64_t most_borrowed = 4096;

}  // namespace

Role mlp_role_of(Role of_expert) noexcept {
  switch (of_expert) {
    case Role::expert_gate: return Role::gate;
    case Role::expert_up: return Role::up;
    case Role::expert_down: return Role::down;
    case Role::expert_gate_bias: return Role::gate_bias;
    case Role::expert_up_bias: return Role::up_bias;
    case Role::expert_down_bias: return Role::down_bias;
    default: return of_expert;
  }
}

LayerWeights expert_alone(const LayerWeights& block, std::int64_t expert) {
  LayerWeights alone;
  const bool apart = !block.expert_norm.empty();  // from an MLP beside them
  const bool shared = block.ffn_norm.empty() && !apart;  // with attention (Cohere)
  alone.ffn_norm = apart ? block.expert_norm : shared ? block.attention_norm : block.ffn_norm;
  if (!apart) alone.ffn_norm_bias = shared ? block.attention_norm_bias : block.ffn_norm_bias;
  alone.ffn_streams = block.ffn_streams;
  alone.mlp = block.experts.experts[static_cast<std::size_t>(expert)];
  alone.experts.latent_down = block.experts.latent_down;
  alone.experts.latent_up = block.experts.latent_up;
  return alone;
}

ExpertInputs inputs_of(std::span<const nn::RoutedExpert> routed, const nn::RouterOptions& router, std::int64_t expert, std::int64_t fitted, std::int64_t wanted) {
  ExpertInputs result;
  auto& [own, all, seen, share] = result;
  const std::int64_t used = router.used;
  std::vector<std::int64_t> others;
  for (std::int64_t t = 0; t * used < std::ssize(routed); ++t) {
    const auto of_token = routed.subspan(static_cast<std::size_t>(t * used), static_cast<std::size_t>(used));
    if (const auto found = std::ranges::find(of_token, expert, &nn::RoutedExpert::expert); found != of_token.end()) {
      own.push_back({t, 1, router.scales_inputs ? found->weight : 1});
      seen += t < fitted;
    } else if (t < fitted) {
      others.push_back(t);
    }
  }
  all = own;
  if (seen >= wanted || others.empty()) return result;
  const std::int64_t step = div_up<std::int64_t>(std::ssize(others), most_borrowed), borrowed = div_up<std::int64_t>(std::ssize(others), step);
  const float weight = static_cast<float>(std::min<std::int64_t>(wanted - seen, borrowed)) / static_cast<float>(borrowed);
  for (std::int64_t i = 0; i < std::ssize(others); i += step) all.push_back({others[static_cast<std::size_t>(i)], weight});
  std::ranges::sort(all, {}, &ExpertInput::token);
  share = static_cast<float>(std::min<std::int64_t>(wanted - seen, std::ssize(others))) / static_cast<float>(others.size());
  return result;
}

std::vector<std::vector<ExpertVisit>> visits_of(std::span<const nn::RoutedExpert> routed, const ModelConfig& config, const LayerWeights& block) {
  const nn::RouterOptions& router = config.router;
  // What an expert alone adds is not averaged with a shared one.
  const auto share = static_cast<float>(feed_forward_scale(config, block) / feed_forward_scale(config, LayerWeights()));
  std::vector<std::vector<ExpertVisit>> visits(block.experts.experts.size());
  for (std::size_t i = 0; i < routed.size(); ++i) {
    const float weight = routed[i].weight;
    visits[static_cast<std::size_t>(routed[i].expert)].push_back({i / static_cast<std::size_t>(router.used), share * (router.scales_inputs ? 1 : weight), router.scales_inputs ? weight : 1});
  }
  return visits;
}

std::vector<float> outputs_of_expert(Forward& forward, const LayerWeights& alone, std::int64_t layer, std::span<const float> states,
                                     std::span<const ExpertVisit> visits) {
  const auto width = static_cast<std::size_t>(forward.config().state_dim());
  std::vector<float> before, scales;
  for (const ExpertVisit& visit : visits) {
    scales.push_back(visit.scale);
    const auto row = states.subspan(visit.token * width, width);
    before.insert(before.end(), row.begin(), row.end());
  }
  std::vector<float> outputs = before;
  forward.run_half(alone, layer, Half::feed_forward, outputs, {.input_scales = scales});
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] -= before[i];
  return outputs;
}

}  // namespace bantam::inline v0
