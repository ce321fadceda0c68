// How good a model is on a text: perplexity, and divergence from another model.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "bantam/session/session.hpp"

namespace bantam::inline v0 {

struct PerplexityOptions {
  std::int64_t context = 512;  ///< tokens a window, BOS included; windows do not overlap, every target is scored
  std::int64_t limit = 0;      ///< tokens of the text to use; 0: all
  int threads = 0;
  std::string kv = "f16";
  std::string base_kv = {};  ///< of the base; empty: as `kv`
  std::vector<ScaledAdapter> adapters = {};  ///< of `model`, not of the base
};

struct PerplexityResult {
  double perplexity = 0;  ///< e^nll
  double nll = 0;         ///< mean negative log-likelihood of a target, in nats
  std::int64_t tokens = 0;  ///< targets scored
  std::int64_t windows = 0;
  double seconds = 0;
  // Against a base model, on the same tokens.
  std::optional<double> base_perplexity;
  std::optional<double> kl_mean;         ///< KL(base || model) in nats
  std::optional<double> kl_p99;          ///< its 99th percentile
  std::optional<double> top1_agreement;  ///< share of positions with the same most probable token
  // One number a window, in order: what two models on the same text are compared by, in pairs.
  std::vector<std::int64_t> window_tokens;  ///< targets scored
  std::vector<double> window_nll;           ///< mean over them
  std::vector<double> window_kl;            ///< mean over them; empty without a base model
};

/// Called after each window with (windows done, windows in all); false cancels.
using EvaluationProgress = std::function<bool(std::int64_t, std::int64_t)>;

/// Perplexity of `model` on a text; with `base`, divergence from it too (same vocabulary, or invalid_argument). BOS
/// starts each window when the tokenizer adds one.
[[nodiscard]] PerplexityResult perplexity(const Model& model, std::string_view text, const PerplexityOptions& options = {},
                                          const Model* base = nullptr, const EvaluationProgress& progress = {});

}  // namespace bantam::inline v0
