// The options that say how tokens are chosen, for all who generate.
#pragma once

#include "options.hpp"

namespace bantam::cli {

/// What the parser reads before it becomes Sampling.
struct SamplingOptions {
  Sampling sampling;
  std::int64_t top_k = 40;
  std::int64_t repeat_last_n = 64;
  std::int64_t dry_allowed_length = 2;
  std::int64_t dry_penalty_last_n = -1;
  std::int64_t mirostat = 0;
  std::vector<std::string> dry_breakers;
  std::vector<std::string> logit_bias;
  std::string samplers;
};

void add_sampling(CLI::App& verb, SamplingOptions& options);
/// The seed is the caller's. Throws UsageError that names what is wrong.
[[nodiscard]] Sampling sampling_of(const SamplingOptions& options);

}  // namespace bantam::cli
