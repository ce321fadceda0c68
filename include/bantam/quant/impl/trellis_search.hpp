// The search for paths: definitions of quant/trellis_search.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "bantam/core/memory.hpp"
#include "bantam/core/once.hpp"
#include "bantam/quant/trellis_search.hpp"
#include "bantam/simd/paths.hpp"

namespace bantam::inline v0 {

namespace detail::trellis {

inline constexpr std::size_t states = 1 << 16;

/// The first and the second weight of every state.
struct Levels {
  std::vector<std::int8_t> of[2];
  Levels() {
    for (int i = 0; i < 2; ++i) {
      of[i].resize(states + 16);
      for (std::uint32_t state = 0; state < states; ++state) of[i][state] = static_cast<std::int8_t>(simd::trellis_weight(state, i));
    }
  }
};
BANTAM_ONCE const Levels& levels() {
  static const Levels all;
  return all;
}

/// The last 128 bits of a path, the newest lowest.
struct Steps {
  std::uint64_t high = 0, low = 0;

  [[nodiscard]] Steps followed_by(std::uint64_t bits, int count) const noexcept { return {high << count | low >> (64 - count), low << count | bits}; }
  /// The bits from number `at` on.
  [[nodiscard]] std::uint64_t from(int at) const noexcept { return at == 0 ? low : at < 64 ? low >> at | high << (64 - at) : high >> (at - 64); }
};

/// The paths that are followed, and those that follow them.
struct Paths {
  std::vector<float> costs;
  std::vector<std::uint16_t> states;
  std::vector<Steps> recent;
  std::vector<float> taken;           ///< (paths, simd::path_row)

  [[nodiscard]] std::size_t size() const noexcept { return costs.size(); }
  void resize(std::size_t count, bool takes) {
    costs.resize(count);
    states.resize(count);
    recent.resize(count);
    if (takes && taken.size() < count * simd::path_row) taken.resize(count * simd::path_row);  // new ones are zeros, as they stay behind the horizon
  }
};

class Search {
 public:
  void run(const TrellisTask& task, const simd::PathKernels& kernels, std::span<std::uint8_t> steps) {
    bits_ = task.step_bits;
    children_ = std::size_t{1} << bits_;
    kept_steps_ = std::min<std::size_t>(simd::path_horizon / 2, 128 / static_cast<std::size_t>(bits_));
    takes_ = task.factor != nullptr;
    begin(task);
    for (std::size_t step = 0; step < steps.size(); ++step) {
      const simd::PathStep of = step_of(task, step);
      children_costs_.resize(now_.size() * children_ + 16);
      kernels.costs(of, now_.costs.data(), now_.states.data(), takes_ ? now_.taken.data() : nullptr, static_cast<std::int64_t>(now_.size()), children_costs_.data());
      choose(static_cast<std::size_t>(std::max(task.paths, 1)));
      follow(of, kernels);
      if (step + 1 >= kept_steps_) decide(task, step + 1 - kept_steps_, steps);
    }
    const auto best = static_cast<std::size_t>(std::ranges::min_element(now_.costs) - now_.costs.begin());
    const std::size_t left = std::min(steps.size(), kept_steps_ - 1);
    for (std::size_t i = 0; i < left; ++i) steps[steps.size() - 1 - i] = static_cast<std::uint8_t>(now_.recent[best].from(static_cast<int>(i) * bits_) & (children_ - 1));
  }

 private:
  void begin(const TrellisTask& task) {
    now_.resize(1, takes_);
    now_.costs[0] = 0;
    now_.states[0] = 0;
    now_.recent[0] = {};
    if (takes_) std::fill_n(now_.taken.data(), simd::path_row, 0.0f);
    decided_state_ = 0;
    wanted_.assign(task.wanted.begin(), task.wanted.end());
    if (takes_) exact_ = wanted_;
    place_of_.resize(states >> bits_);
  }

  simd::PathStep step_of(const TrellisTask& task, std::size_t step) {
    const std::size_t at = 2 * step;
    simd::PathStep of{.children = static_cast<int>(children_),
                .first = levels().of[0].data(),
                .second = levels().of[1].data(),
                .wanted = {wanted_[at], wanted_[at + 1]},
                .scale = {task.scales[at], task.scales[at + 1]},
                .share = {task.shares[at], task.shares[at + 1]}};
    if (!takes_) return of;
    of.between = row(task, at)[at + 1];
    for (std::size_t i = 0; i < 2; ++i) {
      const float* from = row(task, at + i);
      for (std::size_t k = 0; k < simd::path_horizon; ++k) take_[i][k] = at + 2 + k < wanted_.size() ? from[at + 2 + k] : 0.0f;
      of.take[i] = take_[i].data();
    }
    return of;
  }
  static const float* row(const TrellisTask& task, std::size_t place) { return task.factor + static_cast<std::ptrdiff_t>(place) * task.stride; }

  /// Costs are not negative: their bits are in their order, with what overflowed on the way last.
  [[nodiscard]] std::uint32_t bits_of(std::size_t child) const noexcept { return std::bit_cast<std::uint32_t>(children_costs_[child]); }
  static constexpr std::uint32_t infinite = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::infinity());

  /// Notes the children of no larger cost.
  void collect(std::uint32_t limit, std::size_t count) {
    chosen_.resize(count);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      chosen_[kept] = static_cast<std::uint32_t>(i);
      kept += bits_of(i) <= limit;
    }
    chosen_.resize(kept);
  }

  /// The cost that about `paths` children do not exceed, by a sample of one in seven.
  [[nodiscard]] std::uint32_t limit_of(std::size_t paths, std::size_t count) {
    sample_.clear();
    for (std::size_t i = 0; i < count; i += 7) sample_.push_back(bits_of(i));
    const auto at = sample_.begin() + static_cast<std::ptrdiff_t>(std::min(paths / 7, sample_.size() - 1));
    std::ranges::nth_element(sample_, at);
    return std::min(*at, infinite - 1);
  }

  /// The children of least cost, about as many as `paths`, and of those that end in one state, as far as later steps can tell, one.
  void choose(std::size_t paths) {
    const std::size_t count = now_.size() * children_;
    std::uint32_t least = infinite - 1;
    for (std::size_t i = 0; i < count; ++i) least = std::min(least, bits_of(i));
    best_ = std::bit_cast<float>(least);
    collect(count > paths ? limit_of(paths, count) : infinite - 1, count);
    if (chosen_.size() > 2 * paths) {  // few paths, or many that cost the same
      std::ranges::nth_element(chosen_, chosen_.begin() + static_cast<std::ptrdiff_t>(2 * paths), {}, [&](std::uint32_t i) { return std::uint64_t{bits_of(i)} << 32 | i; });
      chosen_.resize(2 * paths);
    }
    if (chosen_.empty()) chosen_.push_back(0);  // of paths that all overflowed
    std::ranges::fill(place_of_, std::uint16_t{0});
    std::size_t kept = 0;
    for (const std::uint32_t child : chosen_) {
      const std::size_t state = (std::size_t{now_.states[child / children_]} * children_ + child % children_) & (place_of_.size() - 1);
      std::uint16_t& place = place_of_[state];
      if (place == 0) {
        chosen_[kept++] = child;
        place = static_cast<std::uint16_t>(kept);
      } else if (bits_of(child) < bits_of(chosen_[place - 1u])) {
        chosen_[place - 1u] = child;
      }
    }
    chosen_.resize(kept);
  }

  void follow(const simd::PathStep& step, const simd::PathKernels& kernels) {
    next_.resize(chosen_.size(), takes_);
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      const std::size_t child = chosen_[i], parent = child / children_, bits = child % children_;
      const auto state = static_cast<std::uint16_t>(now_.states[parent] * children_ + bits);
      next_.costs[i] = children_costs_[child] - best_;
      next_.states[i] = state;
      next_.recent[i] = now_.recent[parent].followed_by(bits, bits_);
      if (!takes_) continue;
      const float* taken = &now_.taken[parent * simd::path_row];
      const float e = (step.wanted[0] - taken[0] - static_cast<float>(step.first[state]) * step.scale[0]) * step.share[0];
      const float f = (step.wanted[1] - taken[1] - e * step.between - static_cast<float>(step.second[state]) * step.scale[1]) * step.share[1];
      kernels.takes(step, taken, e, f, &next_.taken[i * simd::path_row]);
    }
    std::swap(now_, next_);
  }

  /// Decides a step as the best path does, and drops those that do otherwise.
  void decide(const TrellisTask& task, std::size_t step, std::span<std::uint8_t> steps) {
    const int shift = static_cast<int>(kept_steps_ - 1) * bits_;
    const auto of = [&](std::size_t path) { return now_.recent[path].from(shift) & (children_ - 1); };
    const auto best = static_cast<std::size_t>(std::ranges::min_element(now_.costs) - now_.costs.begin());
    const std::uint64_t chosen = of(best);
    steps[step] = static_cast<std::uint8_t>(chosen);
    for (std::size_t i = 0; i < now_.size(); ++i) {
      if (of(i) != chosen) now_.costs[i] = std::numeric_limits<float>::infinity();
    }
    if (!takes_) return;
    // What its errors take from columns beyond the horizon is no longer a matter of paths.
    decided_state_ = static_cast<std::uint16_t>(decided_state_ * children_ + chosen);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t at = 2 * step + i, far = 2 * step + 2 + simd::path_horizon;
      const float error = (exact_[at] - static_cast<float>(levels().of[i][decided_state_]) * task.scales[at]) * task.shares[at];
      const float* take = row(task, at);
      for (std::size_t j = at + 1; j < exact_.size(); ++j) exact_[j] -= error * take[j];
      for (std::size_t j = far; j < wanted_.size(); ++j) wanted_[j] -= error * take[j];
    }
  }

  int bits_ = 0;
  std::size_t children_ = 0, kept_steps_ = 0;
  bool takes_ = false;
  std::uint16_t decided_state_ = 0;
  Paths now_, next_;
  std::vector<float> children_costs_;
  std::vector<std::uint32_t> chosen_;    ///< children
  std::vector<std::uint32_t> sample_;    ///< of costs
  float best_ = 0;                       ///< of their costs
  std::vector<std::uint16_t> place_of_;  ///< of the states that later steps can tell apart: whether a path ends in it
  std::vector<float> wanted_, exact_;    ///< without what decided errors took beyond the horizon; without all of it
  std::array<float, simd::path_horizon> take_[2] = {};
};

}  // namespace detail::trellis

BANTAM_ONCE const simd::PathKernels& portable_paths() noexcept { return simd::path_kernels<simd::generic>; }

BANTAM_ONCE void find_path(const TrellisTask& task, const simd::PathKernels& kernels, std::span<std::uint8_t> steps) {
  thread_local detail::trellis::Search search;
  search.run(task, kernels, steps);
}

BANTAM_ONCE std::vector<std::int16_t> trellis_order(int step_bits, int columns) {
  std::vector<std::int16_t> order;
  const int unit = trellis_unit(step_bits);
  for (int first = 0; first < columns; first += unit) {
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < unit; i += 4) {
        for (int k = 0; k < 2; ++k) order.push_back(static_cast<std::int16_t>(first + i + 2 * half + k));
      }
    }
  }
  return order;
}

BANTAM_ONCE void store_steps(int step_bits, std::span<const std::uint8_t> steps, std::int8_t* codes) {
  const std::vector<std::int16_t> order = trellis_order(step_bits, static_cast<int>(2 * steps.size()));
  const int low = (step_bits + 1) / 2;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    codes[order[2 * step]] = static_cast<std::int8_t>(steps[step] & ((1 << low) - 1));
    codes[order[2 * step + 1]] = static_cast<std::int8_t>(steps[step] >> low);
  }
}

BANTAM_ONCE void resolve_steps(int step_bits, std::span<const std::uint8_t> steps, std::span<std::int8_t> weights) {
  std::uint32_t state = 0;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    state = (state << step_bits | steps[step]) & 0xffff;
    for (int i = 0; i < 2; ++i) weights[2 * step + static_cast<std::size_t>(i)] = static_cast<std::int8_t>(simd::trellis_weight(state, i));
  }
}

BANTAM_ONCE void round_to_trellis(int step_bits, std::span<const float> weights, std::span<const float> importance, std::span<const GroupSide> sides, int group,
                                  const simd::PathKernels& kernels, int paths, std::int8_t* codes) {
  const int unit = trellis_unit(step_bits);
  const std::vector<std::int16_t> order = trellis_order(step_bits, round_up(static_cast<int>(weights.size()), unit));
  std::vector<float> wanted, scales, shares;
  for (const std::int16_t column : order) {
    const auto c = static_cast<std::size_t>(column);
    const bool there = c < weights.size();
    wanted.push_back(there ? weights[c] : 0.0f);
    scales.push_back(sides[c / static_cast<std::size_t>(group)].scale);
    shares.push_back(!there ? 0.0f : importance.empty() ? 1.0f : std::sqrt(importance[c]));
  }
  std::vector<std::uint8_t> steps(order.size() / 2);
  find_path({.step_bits = step_bits, .wanted = wanted, .scales = scales, .shares = shares, .paths = paths}, kernels, steps);
  store_steps(step_bits, steps, codes);
}

BANTAM_ONCE float fit_trellis_scale(std::span<const float> weights, std::span<const float> importance) noexcept {
  // Measured on normal weights and on such with heavy tails (Student's t, 5 degrees): a weight of x deviations leaves, in them, 0.034 + 0.013 x^4,
  // be it in its own error or in that of others. The sum is least where the mean of x^4 is 0.034 / 0.013.
  double fourths = 0, shares = 0, largest = 0;
  for (const float w : weights) largest = std::max(largest, std::fabs(static_cast<double>(w)));
  if (!(largest >= 0x1p-100)) return 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double share = importance.empty() ? 1.0 : static_cast<double>(importance[i]), part = static_cast<double>(weights[i]) / largest;
    fourths += share * part * part * part * part;
    shares += share;
  }
  if (!(fourths > 0)) return 0;
  return static_cast<float>(largest * std::sqrt(std::sqrt(0.013 / 0.034 * fourths / shares)) / static_cast<double>(simd::trellis_deviation));
}

}  // namespace bantam::inline v0
