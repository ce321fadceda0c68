// Measuring what other experts cost.
#include "other_experts.hpp"

#include <algorithm>

#include "bantam/calibrate/calibration.hpp"
#include "bantam/model/divergence.hpp"
#include "bantam/session/session.hpp"
#include "output.hpp"

namespace bantam::cli {

namespace {

/// Enough to tell a scratch from a wound, and a moment's work.
constexpr std::size_t measured_tokens = 64;
/// Read before as a prompt, so that caches hold something.
constexpr std::size_t prompt_tokens = 32;

using Rows = std::vector<std::vector<float>>;

/// Logits behind the prompt. What the model reads from its file takes memory no longer than this runs.
Rows logits_of(const Model& model, std::span<const TokenId> tokens, std::size_t prompt, bool one_by_one) {
  Rows rows;
  Session session(model, {.context = std::ssize(tokens), .kv = "f32"});
  session.prefill(tokens.first(prompt));
  const std::size_t step = one_by_one ? 1 : tokens.size();
  for (std::span<const TokenId> rest = tokens.subspan(prompt); !rest.empty(); rest = rest.subspan(std::min(step, rest.size()))) {
    session.score(rest.first(std::min(step, rest.size())), [&](std::int64_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); });
  }
  return rows;
}

bool reads_experts(const Model& model) {
  return model.residency() != nullptr && std::ranges::any_of(model.residency()->layers, [](const Residency::Layer& layer) { return layer.cached_experts > 0; });
}

}  // namespace

Model with_other_experts(const Model& exact, const LoadingOptions& options) {
  Model other = exact;
  std::string what;
  const auto add = [&](const std::string& words) { what += (what.empty() ? "" : ", ") + words; };
  if (options.experts > 0) {
    other = other.with_experts(options.experts);
    add(message(options.experts, " experts a token in place of ", exact.config().router.used));
  }
  const bool passes_over = options.cold.matter() && reads_experts(exact);
  if (options.cold.matter()) {
    other = other.with_cold_experts(options.cold);
    if (!passes_over) {
      note("bantam: all experts are in memory: --prefer-cached and --drop-cold change nothing");
    } else {
      if (options.cold.prefer_cached > 0) add(message("--prefer-cached ", fixed(options.cold.prefer_cached, 2)));
      if (options.cold.drop > 0) add(message("--drop-cold ", fixed(options.cold.drop, 2)));
    }
  }
  if (what.empty()) return other;
  std::vector<TokenId> tokens = exact.tokenizer().encode(default_calibration_text());
  tokens.resize(std::min<std::size_t>({tokens.size(), prompt_tokens + measured_tokens, static_cast<std::size_t>(exact.config().context)}));
  const std::size_t prompt = std::min(prompt_tokens, tokens.size() / 2);
  // Cold experts are passed over when texts are written, token by token. The model itself gives the same however it reads.
  const Rows right = logits_of(exact, tokens, prompt, false), seen = logits_of(other, tokens, prompt, passes_over);
  double sum = 0;
  std::size_t same = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    sum += divergence(right[i], log_sum_exp(right[i]), seen[i], log_sum_exp(seen[i]));
    same += std::ranges::max_element(right[i]) - right[i].begin() == std::ranges::max_element(seen[i]) - seen[i].begin();
  }
  const auto count = static_cast<double>(right.size());
  note(message("bantam: ", what, ": KL ", fixed(sum / count, 4), " nats from the model, the same top token at ", fixed(100 * static_cast<double>(same) / count, 0), " % of ",
               right.size(), " positions"));
  return other;
}

}  // namespace bantam::cli
