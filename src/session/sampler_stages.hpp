// The stages of sampling as functions on a set of candidates that stays sorted by rising id.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "bantam/session/sampler.hpp"

namespace bantam::inline v0::detail {

/// The first token of the highest logit; -1 where that is not finite or a logit is NaN.
[[nodiscard]] TokenId most_probable(std::span<const float> logits) noexcept;

/// The logits plus bias as candidates, without those at minus infinity. Throws corrupt for NaN, +infinity, or no
/// candidate.
void gather(std::span<const float> logits, std::span<const std::pair<TokenId, float>> bias,
            std::vector<SamplerCandidate>& candidates);

/// Keskar et al., arXiv:1909.05858 (repetition, sign-aware), then frequency and presence as OpenAI's API defines them.
/// counts: how often each remembered token was seen.
void penalize(std::vector<SamplerCandidate>& candidates, const std::map<TokenId, std::int64_t>& counts,
              const Sampling& options);

/// Divides the logits; 0 or less keeps the most probable candidate alone.
void apply_temperature(std::vector<SamplerCandidate>& candidates, double temperature);
void keep_most_probable(std::vector<SamplerCandidate>& candidates);

/// The truncations keep at least one candidate.
void keep_top_k(SamplerScratch& scratch, std::size_t k);
void keep_top_p(SamplerScratch& scratch, double p);
void keep_min_p(std::vector<SamplerCandidate>& candidates, double p);
void keep_typical(SamplerScratch& scratch, double p);

/// Lowers what would go on with a repetition. tokens: the window, the last one at the end. Linear in it.
void penalize_repetitions(std::vector<SamplerCandidate>& candidates, std::span<const TokenId> tokens, const Sampling& options);
/// Keeps logits of at least the highest less n of their standard deviations.
void keep_top_n_sigma(std::vector<SamplerCandidate>& candidates, double n);
/// Drops all of at least this probability but the least probable of them, the highest id among equals.
void exclude_top_choices(SamplerScratch& scratch, double threshold);
/// The temperature between two by the entropy, as a share of the greatest that so many candidates can have.
[[nodiscard]] double dynamic_temperature(SamplerScratch& scratch, const Sampling& options);

/// Basu et al., arXiv:2007.14966, equation 30 and algorithm 1: the k for which Zipf's law, fitted to the most probable
/// candidates, expects a surprise of `mu` bits.
void keep_mirostat_v1(SamplerScratch& scratch, double mu);
/// Its second version: drops candidates of more than `mu` bits.
void keep_mirostat_v2(SamplerScratch& scratch, double mu);

/// Fills the weights exp(logit - highest) and returns their sum, added in the candidates' order.
double softmax_weights(SamplerScratch& scratch);

}  // namespace bantam::inline v0::detail
