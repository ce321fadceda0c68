// Measuring what fewer experts cost.
#include "fewer_experts.hpp"

#include <algorithm>

#include "bantam/calibrate/calibration.hpp"
#include "bantam/model/divergence.hpp"
#include "bantam/session/session.hpp"
#include "output.hpp"

namespace bantam::cli {

namespace {

/// Enough to tell a scratch from a wound, and a moment's work.
constexpr std::size_t measured_tokens = 64;

/// Logits of all positions. What the model reads from its file takes memory no longer than this runs.
std::vector<std::vector<float>> logits_of(const Model& model, std::span<const TokenId> tokens) {
  std::vector<std::vector<float>> rows;
  Session session(model, {.context = std::ssize(tokens), .kv = "f32"});
  session.score(tokens, [&](std::int64_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); });
  return rows;
}

}  // namespace

Model with_other_experts(const Model& exact, std::int64_t experts) {
  Model other = exact.with_experts(experts);
  std::vector<TokenId> tokens = exact.tokenizer().encode(default_calibration_text());
  tokens.resize(std::min<std::size_t>({tokens.size(), measured_tokens, static_cast<std::size_t>(exact.config().context)}));
  const auto right = logits_of(exact, tokens), seen = logits_of(other, tokens);
  double sum = 0;
  std::size_t same = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    sum += divergence(right[i], log_sum_exp(right[i]), seen[i], log_sum_exp(seen[i]));
    same += std::ranges::max_element(right[i]) - right[i].begin() == std::ranges::max_element(seen[i]) - seen[i].begin();
  }
  const auto count = static_cast<double>(right.size());
  note(message("bantam: ", experts, " experts a token in place of ", exact.config().router.used, ": KL ", fixed(sum / count, 4), " nats from the model, the same top token at ",
               fixed(100 * static_cast<double>(same) / count, 0), " % of ", right.size(), " positions"));
  return other;
}

}  // namespace bantam::cli
