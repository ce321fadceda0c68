// The router of a mixture of experts: the experts that a token goes to, and how much each counts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "bantam/core/error.hpp"
#include "bantam/nn/gates.hpp"

namespace bantam::inline v0::nn {

/// What an expert's logit becomes before experts are chosen.
enum class RouterScore : std::uint8_t {
  softmax,            ///< over all experts (Mixtral, arXiv:2401.04088, with renormalize; Qwen, OLMoE, DeepSeek V2)
  sigmoid,            ///< DeepSeek V3 (arXiv:2412.19437, eq. 15), GLM-4.5, MiniMax M2
  softmax_of_chosen,  ///< the logits choose; what counts is the softmax over the chosen (gpt-oss)
  sqrt_softplus,      ///< sqrt(log(1 + e^x)) (DeepSeek V4)
  in_turn,            ///< SparseMixer's (arXiv:2409.12136) once trained: the logits choose; one after the other counts as the softmax over those left that are near it
};

/// What routers do about experts that are cold: not in memory, and a read away (cache-conditional experts, arXiv:2412.00099). It makes another
/// model, one that depends on what was read before. Off where both are 0.
struct ColdExperts {
  /// 0 to 1. An expert in memory takes the place of a cold one where it scores more than 1 - this of it. The best quarter of a token's experts,
  /// rounded up, stay whoever they are.
  float prefer_cached = 0;
  /// 0 to 1. A cold expert that counts less than this share of what the token's experts count together is left out, and the others count as
  /// much more; the one that counts most stays.
  float drop = 0;
  [[nodiscard]] bool matter() const noexcept { return prefer_cached > 0 || drop > 0; }
  bool operator==(const ColdExperts&) const = default;
};

/// The published routers as one: score, choose by score + bias among the best groups, weigh by score.
struct RouterOptions {
  RouterScore score = RouterScore::softmax;
  std::int64_t experts = 0;      ///< of the layer that has most of them
  std::int64_t used = 0;         ///< by a token
  std::int64_t groups = 1;       ///< of neighboring experts, all as large
  std::int64_t groups_used = 1;  ///< a token's experts are chosen from so many groups
  std::int64_t group_best = 2;   ///< a group counts as the sum of its so many best experts: 1 (DeepSeek V2) or 2 (V3, eq. 14)
  bool renormalize = false;      ///< the chosen weights are divided by their sum
  float scale = 1;               ///< and multiplied by this
  float jitter = 0.01F;          ///< of RouterScore::in_turn: near is (best - x) / max(|x|, best) <= 2 jitter
  bool scales_inputs = false;    ///< weights multiply what experts read, not what they make (Llama 4)
  ColdExperts cold = {};
  bool operator==(const RouterOptions&) const = default;
};

struct RoutedExpert {
  std::int32_t expert = 0;
  float weight = 0;
  bool operator==(const RoutedExpert&) const = default;
};

/// Chooses experts, one token at a time. Not for several threads at once: each worker has its own.
class Router {
 public:
  /// Throws invalid_argument for numbers that do not go together.
  explicit Router(const RouterOptions& options);

  /// Writes the `used` experts of a token to `chosen`, in the order of their numbers, in which their outputs are added. Of equal experts
  /// and groups the first is taken; a logit that is not a number is the least. logits: (experts of the layer). `selection_bias`: as many,
  /// added to scores when experts are chosen, not when they are weighed (DeepSeek V3, eq. 16); or empty. `cold`: as many, not 0 where an expert
  /// is cold; or empty: none is. An expert that is left out for being cold gives its place to the one that counts most, which counts nothing
  /// there. O(experts), and no memory is taken.
  void route(std::span<const float> logits, std::span<const float> selection_bias, std::span<RoutedExpert> chosen,
             std::span<const std::uint8_t> cold = {}) noexcept;

 private:
  void score(std::span<const float> logits) noexcept;
  void leave_out_groups() noexcept;
  void handicap(std::span<const std::uint8_t> cold, std::span<RoutedExpert> sacred) noexcept;
  void drop(std::span<const std::uint8_t> cold, std::span<RoutedExpert> chosen) const noexcept;
  void choose(std::span<RoutedExpert> chosen) const noexcept;
  void weigh(std::span<RoutedExpert> chosen) noexcept;
  void weigh_in_turn(std::span<RoutedExpert> chosen) noexcept;
  [[nodiscard]] double best_of_group(std::int64_t group) const noexcept;

  static constexpr float least = -std::numeric_limits<float>::infinity();
  /// What the sum of weights is at least taken for: llama.cpp's, the smallest normal half.
  static constexpr double least_sum = 6.103515625e-5;

  RouterOptions options_;
  std::vector<float> scores_;     ///< (experts)
  std::vector<float> selection_;  ///< (experts): what they are chosen by
  std::vector<double> groups_;    ///< (groups)
};

inline Router::Router(const RouterOptions& options) : options_(options) {
  const auto expect = [](bool holds, auto&&... words) {
    if (!holds) fail(Errc::invalid_argument, "router: expected ", words...);
  };
  const RouterOptions& o = options_;
  expect(o.experts > 0 && o.used > 0 && o.used <= o.experts, "1 to ", o.experts, " experts a token, found ", o.used);
  expect(o.groups > 0 && o.experts % o.groups == 0, "groups that divide ", o.experts, " experts, found ", o.groups);
  expect(o.groups_used > 0 && o.groups_used <= o.groups, "1 to ", o.groups, " groups a token, found ", o.groups_used);
  expect(o.used <= o.experts / o.groups * o.groups_used, o.used, " experts or more in ", o.groups_used, " groups, found ", o.experts / o.groups * o.groups_used);
  const auto is_share = [](float x) { return x >= 0 && x <= 1; };
  expect(is_share(o.cold.prefer_cached) && is_share(o.cold.drop), "shares of 0 to 1 for cold experts, found ", o.cold.prefer_cached, " and ", o.cold.drop);
  expect(o.groups == 1 || (o.group_best > 0 && o.group_best <= 2 && o.group_best <= o.experts / o.groups), "groups that count as 1 or 2 of their experts, found ", o.group_best);
  scores_.reserve(static_cast<std::size_t>(o.experts));
  selection_.reserve(scores_.capacity());
  groups_.resize(static_cast<std::size_t>(o.groups));
}

inline void Router::route(std::span<const float> logits, std::span<const float> selection_bias, std::span<RoutedExpert> chosen,
                          std::span<const std::uint8_t> cold) noexcept {
  BANTAM_ASSERT(static_cast<std::int64_t>(logits.size()) <= options_.experts && (selection_bias.empty() || selection_bias.size() == logits.size()));
  BANTAM_ASSERT(cold.empty() || cold.size() == logits.size());
  scores_.resize(logits.size());
  selection_.resize(logits.size());
  score(logits);
  for (std::size_t e = 0; e < scores_.size(); ++e) {
    const float value = selection_bias.empty() ? scores_[e] : scores_[e] + selection_bias[e];
    selection_[e] = std::isnan(value) ? least : value;
  }
  if (options_.groups_used < options_.groups) leave_out_groups();
  if (!cold.empty() && options_.cold.prefer_cached > 0) handicap(cold, chosen.first((chosen.size() + 3) / 4));
  choose(chosen);
  weigh(chosen);
  if (!cold.empty() && options_.cold.drop > 0) drop(cold, chosen);
}

inline void Router::score(std::span<const float> logits) noexcept {
  std::ranges::transform(logits, scores_.begin(), [](float x) { return std::isnan(x) ? least : x; });
  switch (options_.score) {
    case RouterScore::softmax: {
      const double largest = std::ranges::max(scores_);
      double sum = 0;
      for (const float x : scores_) sum += std::exp(x - largest);
      for (float& x : scores_) x = static_cast<float>(std::exp(x - largest) / sum);
      break;
    }
    case RouterScore::sigmoid:
      for (float& x : scores_) x = static_cast<float>(sigmoid<double>(x));
      break;
    case RouterScore::sqrt_softplus:
      for (float& x : scores_) x = static_cast<float>(std::sqrt(softplus<double>(x)));
      break;
    case RouterScore::softmax_of_chosen:
    case RouterScore::in_turn: break;
  }
}

inline double Router::best_of_group(std::int64_t group) const noexcept {
  const std::int64_t size = static_cast<std::int64_t>(selection_.size()) / options_.groups;
  float first = least, second = least;
  for (const float value : std::span(selection_).subspan(static_cast<std::size_t>(group * size), static_cast<std::size_t>(size))) {
    second = std::max(second, std::min(first, value));
    first = std::max(first, value);
  }
  return options_.group_best == 1 ? double{first} : double{first} + double{second};
}

/// Experts of groups that are not among the best cannot be chosen.
inline void Router::leave_out_groups() noexcept {
  for (std::int64_t g = 0; g < options_.groups; ++g) groups_[static_cast<std::size_t>(g)] = best_of_group(g);
  const std::int64_t size = static_cast<std::int64_t>(selection_.size()) / options_.groups;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::int64_t better = 0;
    for (std::size_t other = 0; other < groups_.size(); ++other) better += groups_[other] > groups_[g] || (groups_[other] == groups_[g] && other < g);
    if (better < options_.groups_used) continue;
    std::fill_n(selection_.begin() + static_cast<std::ptrdiff_t>(g) * size, size, least);
  }
}

/// Cold experts but for the best, which are written to `sacred`, are chosen by 1 - prefer_cached of their scores. Where logits choose, the
/// scores are e^logit.
inline void Router::handicap(std::span<const std::uint8_t> cold, std::span<RoutedExpert> sacred) noexcept {
  const bool by_logits = options_.score == RouterScore::softmax_of_chosen || options_.score == RouterScore::in_turn;
  const float share = options_.cold.prefer_cached, less = std::log1p(-share);
  choose(sacred);
  std::size_t next = 0;
  for (std::size_t e = 0; e < cold.size(); ++e) {
    if (next < sacred.size() && static_cast<std::size_t>(sacred[next].expert) == e) {
      ++next;
    } else if (cold[e] != 0 && selection_[e] > least) {
      selection_[e] += by_logits ? less : -share * scores_[e];
    }
  }
}

inline void Router::drop(std::span<const std::uint8_t> cold, std::span<RoutedExpert> chosen) const noexcept {
  const RoutedExpert most = *std::ranges::max_element(chosen, {}, &RoutedExpert::weight);
  double sum = 0, kept = 0;
  for (const RoutedExpert& one : chosen) sum += one.weight;
  const double least_weight = sum * options_.cold.drop;
  for (RoutedExpert& one : chosen) {
    if (one.expert != most.expert && cold[static_cast<std::size_t>(one.expert)] != 0 && one.weight < least_weight) one = {most.expert, 0.0F};
    kept += one.weight;
  }
  if (!(kept > 0) || kept == sum) return;
  for (RoutedExpert& one : chosen) one.weight = static_cast<float>(one.weight / kept * sum);
  std::ranges::sort(chosen, {}, &RoutedExpert::expert);
}

/// The largest of selection_, sorted as they come, then by number. What a group left out may come last, where all there is is least.
inline void Router::choose(std::span<RoutedExpert> chosen) const noexcept {
  std::size_t count = 0;
  for (std::size_t e = 0; e < selection_.size(); ++e) {
    const float value = selection_[e];
    if (count == chosen.size() && !(value > chosen[count - 1].weight)) continue;
    count = std::min(count + 1, chosen.size());
    std::size_t place = count - 1;
    for (; place > 0 && value > chosen[place - 1].weight; --place) chosen[place] = chosen[place - 1];
    chosen[place] = {static_cast<std::int32_t>(e), value};
  }
  std::ranges::sort(chosen, {}, &RoutedExpert::expert);
}

/// Of the chosen, the best first; of equals the first. Whom a logit that is no number chose counts nothing.
inline void Router::weigh_in_turn(std::span<RoutedExpert> chosen) noexcept {
  std::ranges::fill(selection_, 0.0F);  // 1: had its turn
  for (std::size_t turn = 0; turn < chosen.size(); ++turn) {
    RoutedExpert* best = nullptr;
    for (RoutedExpert& one : chosen) {
      const auto e = static_cast<std::size_t>(one.expert);
      if (selection_[e] == 0 && (best == nullptr || scores_[e] > scores_[static_cast<std::size_t>(best->expert)])) best = &one;
    }
    const double most = scores_[static_cast<std::size_t>(best->expert)];
    double sum = 0;
    for (std::size_t e = 0; e < scores_.size(); ++e) {
      const double x = scores_[e], apart = (most - x) / std::max(std::fabs(x), most);
      if (selection_[e] == 0 && !(apart > 2 * static_cast<double>(options_.jitter))) sum += std::exp(x - most);
    }
    best->weight = sum > 0 ? static_cast<float>(1 / sum) : 0.0F;
    selection_[static_cast<std::size_t>(best->expert)] = 1;
  }
}

inline void Router::weigh(std::span<RoutedExpert> chosen) noexcept {
  for (RoutedExpert& one : chosen) one.weight = scores_[static_cast<std::size_t>(one.expert)];
  if (options_.score == RouterScore::softmax_of_chosen) {
    const double largest = std::ranges::max(chosen, {}, &RoutedExpert::weight).weight;
    double sum = 0;
    for (const RoutedExpert& one : chosen) sum += std::exp(one.weight - largest);
    for (RoutedExpert& one : chosen) one.weight = static_cast<float>(std::exp(one.weight - largest) / sum);
  }
  if (options_.score == RouterScore::in_turn) weigh_in_turn(chosen);
  double divisor = 1;
  if (options_.renormalize) {
    divisor = 0;
    for (const RoutedExpert& one : chosen) divisor += one.weight;
    divisor = std::max(divisor, least_sum);
  }
  for (RoutedExpert& one : chosen) one.weight = static_cast<float>(one.weight / divisor * options_.scale);
}

}  // namespace bantam::inline v0::nn
