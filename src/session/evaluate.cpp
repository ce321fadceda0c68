// Perplexity and divergence over windows of a text.
#include "bantam/session/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bantam/core/stopwatch.hpp"
#include "bantam/model/divergence.hpp"

namespace bantam::inline v0 {

namespace {

std::int64_t argmax(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(std::min(static_cast<double>(values.size() - 1), share * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

}  // namespace

PerplexityResult perplexity(const Model& model, std::string_view text, const PerplexityOptions& options, const Model* base,
                            const EvaluationProgress& progress) {
  if (options.context < 2) fail(Errc::invalid_argument, "context: expected at least 2 tokens, found ", options.context);
  if (options.limit < 0) fail(Errc::invalid_argument, "limit: expected at least 0 tokens, found ", options.limit);
  const ModelConfig& config = model.config();
  if (config.has_source()) fail(Errc::unsupported, "perplexity: expected a model that goes on with a text, found one of type ", config.arch->name, ", whose decoder answers what its encoder reads");
  if (base != nullptr && base->config().vocab != config.vocab) {
    fail(Errc::invalid_argument, "base model: expected the same vocabulary of ", config.vocab, " tokens, found ", base->config().vocab);
  }
  const Stopwatch watch;
  const std::int64_t context = std::min(options.context, config.context);
  const Tokenizer& tokenizer = model.tokenizer();
  std::vector<TokenId> tokens = tokenizer.encode(text, {.add_special = false});
  if (options.limit > 0 && options.limit < static_cast<std::int64_t>(tokens.size())) tokens.resize(static_cast<std::size_t>(options.limit));
  const bool bos = tokenizer.adds_bos() && tokenizer.bos() >= 0;
  const std::int64_t step = context - (bos ? 1 : 0);
  const auto total = static_cast<std::int64_t>(tokens.size());
  const std::int64_t windows = div_up(total, step);

  Session session(model, {.context = context, .threads = options.threads, .kv = options.kv, .adapters = options.adapters});
  std::optional<Session> base_session;
  if (base != nullptr) base_session.emplace(*base, SessionOptions{.context = context, .threads = options.threads, .kv = options.base_kv.empty() ? options.kv : options.base_kv});

  PerplexityResult result;
  double nll = 0, base_nll = 0;
  std::vector<double> divergences;  // of every target
  std::int64_t agreements = 0;
  std::vector<std::vector<float>> base_logits;
  for (std::int64_t w = 0; w < windows; ++w) {
    std::vector<TokenId> window;
    if (bos) window.push_back(tokenizer.bos());
    const std::int64_t first = w * step;
    window.insert(window.end(), tokens.begin() + first, tokens.begin() + std::min(first + step, total));
    if (window.size() < 2) continue;
    const auto scored = static_cast<std::int64_t>(window.size()) - 1;
    if (base_session) {
      base_logits.clear();
      base_session->clear();
      base_session->score(window, [&](std::int64_t index, std::span<const float> row) {
        if (index < scored) base_logits.emplace_back(row.begin(), row.end());
      });
    }
    session.clear();
    const double nll_before = nll;
    session.score(window, [&](std::int64_t index, std::span<const float> row) {
      if (index >= scored) return;
      const double norm = log_sum_exp(row);
      const auto target = static_cast<std::size_t>(window[static_cast<std::size_t>(index + 1)]);
      nll += norm - static_cast<double>(row[target]);
      if (!base_session) return;
      const std::vector<float>& reference = base_logits[static_cast<std::size_t>(index)];
      const double base_norm = log_sum_exp(reference);
      base_nll += base_norm - static_cast<double>(reference[target]);
      divergences.push_back(divergence(reference, base_norm, row, norm));
      agreements += argmax(reference) == argmax(row);
    });
    result.tokens += scored;
    ++result.windows;
    const auto count = static_cast<double>(scored);
    result.window_tokens.push_back(scored);
    result.window_nll.push_back((nll - nll_before) / count);
    if (base_session) result.window_kl.push_back(std::accumulate(divergences.end() - scored, divergences.end(), 0.0) / count);
    if (progress && !progress(w + 1, windows)) fail(Errc::cancelled, "perplexity: cancelled after window ", w + 1);
  }
  if (result.tokens == 0) fail(Errc::invalid_argument, "text: expected at least two tokens to score, found ", total);
  result.nll = nll / static_cast<double>(result.tokens);
  result.perplexity = std::exp(result.nll);
  if (!std::isfinite(result.perplexity)) fail(Errc::corrupt, "perplexity: expected finite logits, found a model that gives NaN or infinity");
  if (base_session) {
    double sum = 0;
    for (const double kl : divergences) sum += kl;
    result.base_perplexity = std::exp(base_nll / static_cast<double>(result.tokens));
    result.kl_mean = sum / static_cast<double>(divergences.size());
    result.kl_p99 = percentile(divergences, 0.99);
    result.top1_agreement = static_cast<double>(agreements) / static_cast<double>(divergences.size());
  }
  result.seconds = watch.seconds();
  return result;
}

}  // namespace bantam::inline v0
