// An expert as the MLP of a block of its own, and the tokens that its second moments are taken of.
#pragma once

#include <span>
#include <vector>

#include "bantam/model/forward.hpp"

namespace bantam::inline v0 {

/// The role of an expert's weight in the MLP that the expert is run as.
[[nodiscard]] Role mlp_role_of(Role of_expert) noexcept;
/// A block whose MLP is one of the experts of another, behind the same norm, and in the same space of experts.
[[nodiscard]] LayerWeights expert_alone(const LayerWeights& block, std::int64_t expert);
/// Calls f(role of an expert's weight, role in the MLP that the expert is run as) for each.
template <class F>
void for_each_expert_role(F&& f) {
  for (const RoleInfo& info : roles) {
    if (info.is_of_expert()) f(info.role, mlp_role_of(info.role));
  }
}

/// A token of all samples, and what its second moments count.
struct ExpertInput {
  std::int64_t token = 0;
  float weight = 1;
  float scale = 1;  ///< of what the expert reads
};

/// The tokens that an expert's second moments are taken of. Only those before `fitted` count; the others judge.
struct ExpertInputs {
  std::vector<ExpertInput> own;  ///< routed to it
  std::vector<ExpertInput> all;  ///< where these are fewer than `wanted` also some of the others, with weights that add up to what is lacking
  std::int64_t seen = 0;         ///< of its own that count
  float share = 0;               ///< the weight of all others, if they were all there
};
/// routed: (tokens, used).
[[nodiscard]] ExpertInputs inputs_of(std::span<const nn::RoutedExpert> routed, const nn::RouterOptions& router, std::int64_t expert, std::int64_t fitted, std::int64_t wanted);

/// A token that is routed to an expert.
struct ExpertVisit {
  std::size_t token = 0;
  float weight = 0;  ///< of what the expert makes: the router's, halved where the mean with a shared expert is added
  float scale = 1;   ///< of what it reads: the router's, if that is what it weighs
};
/// Of each expert. routed: (tokens, used).
[[nodiscard]] std::vector<std::vector<ExpertVisit>> visits_of(std::span<const nn::RoutedExpert> routed, const ModelConfig& config, const LayerWeights& block);
/// What an expert alone makes of those tokens, over its weight: (visits, dim). states: (tokens, dim), as the norm before it reads them.
[[nodiscard]] std::vector<float> outputs_of_expert(Forward& forward, const LayerWeights& alone, std::int64_t layer,
                                                   std::span<const float> states, std::span<const ExpertVisit> visits);

}  // namespace bantam::inline v0
