// Sizes and times of shapes, and the search for those that cost as much as may be.
#include "bantam/compress/cost_target.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "bantam/core/median.hpp"
#include "bantam/core/names.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/core/units.hpp"
#include "decode_timer.hpp"
#include "prune/parts.hpp"

namespace bantam::inline v0 {

namespace {

std::optional<double> unit_of(Cost cost, std::string_view name) noexcept {
  if (cost == Cost::bytes) return byte_unit(name);
  constexpr std::pair<std::string_view, double> counts[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"B", 1e9}, {"T", 1e12}};
  constexpr std::pair<std::string_view, double> times[] = {{"ms", 1e-3}, {"s", 1}};
  for (const auto& [unit, value] : cost == Cost::latency ? std::span<const std::pair<std::string_view, double>>(times) : counts) {
    if (unit == name) return value;
  }
  return {};
}

/// Without rotation, which would want to read weights.
Plan plan_unrotated(const Checkpoint& shapes, const Recipe& recipe, Target target) {
  return plan_file(shapes, recipe.without_rotation(), target);
}

/// The removals of a share of each part, but for parts that it is too small for to take anything. Nothing if one would have
/// nothing left.
std::optional<std::vector<Removal>> removals_of(double share, const ModelConfig& config, std::span<const Part> parts, std::span<const Removal> fixed) {
  std::vector<Removal> removals(fixed.begin(), fixed.end());
  for (const Part part : parts) {
    const double amount = part == Part::layers ? std::round(share * static_cast<double>(config.layers)) : share;
    if (amount == 0) continue;
    removals.push_back({part, amount});
    try {
      (void)plan_structure(config, removals);
    } catch (const Error& error) {
      if (error.code() != Errc::invalid_argument) throw;
      // What is left is rounded to whole units: up to a half, too little would go; beyond, too much.
      if (share > 0.5) return {};
      removals.pop_back();
    }
  }
  return removals;
}

}  // namespace

std::string CostTarget::text() const { return message(name_of(cost), ':', amount, of_original ? "x" : cost == Cost::latency ? "s" : ""); }

CostTarget parse_cost_target(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto cost = std::ranges::find_if(prune_costs, [&](Cost c) { return name_of(c) == text.substr(0, colon); });
  CostTarget goal;
  if (cost != std::end(prune_costs) && colon < text.size()) {
    goal.cost = *cost;
    const std::string_view amount = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(amount.data(), amount.data() + amount.size(), goal.amount);
    const std::string_view unit(end, static_cast<std::size_t>(amount.data() + amount.size() - end));
    goal.of_original = unit == "x";
    const std::optional<double> factor = goal.of_original ? 1.0 : unit_of(goal.cost, unit);
    goal.amount *= factor.value_or(0);
    if (error == std::errc{} && std::isfinite(goal.amount) && goal.amount > 0 && (!goal.of_original || goal.amount < 1)) return goal;
  }
  fail(Errc::invalid_argument, "expected parameters:N, flops:N, bytes:SIZE, latency:TIME or one of them and a share like 0.7x, found ", printable(text));
}

Checkpoint outline_of(const Checkpoint& checkpoint, const StructurePlan& plan) {
  const std::vector<std::int64_t> layers = first_numbers(plan.layers);
  ModelConfig config = with_layers(checkpoint.config(), layers);
  config.dim = plan.dim;
  config.set_layers({plan.specs.begin(), plan.specs.begin() + plan.layers});
  Checkpoint outline = Checkpoint::in_memory(checkpoint, config, layers, nullptr, checkpoint.recipe());
  for (const Removal& removal : plan.removals) outline.note_removed(removal.text());
  return outline;
}

double measure_cost(Cost cost, const Checkpoint& shapes, const Recipe& recipe, Target target) {
  const bool untied = recipe.options().rotation.has_value();  // a tied model gets a head of its own
  switch (cost) {
    case Cost::parameters: return static_cast<double>(size_of(shapes).parameters);
    case Cost::flops: return static_cast<double>(size_of(shapes).flops_per_token);
    case Cost::bytes: return static_cast<double>(plan_unrotated(untied ? shapes.untied() : shapes, recipe, target).bytes);
    case Cost::latency: return measure_latencies(shapes, shapes, recipe, target)[0];
  }
  return 0;
}

std::array<double, 2> measure_latencies(const Checkpoint& a, const Checkpoint& b, const Recipe& recipe, Target target) {
  // Rotation gives a tied model a head, which is larger, but takes as long.
  DecodeTimer first(a, plan_unrotated(a, recipe, target)), second(b, plan_unrotated(b, recipe, target));
  constexpr int warm = 2, timed = 31;
  std::vector<double> seconds, quotients;
  for (int i = 0; i < warm + timed; ++i) {
    check_cancelled();
    const double one = first.seconds(), other = second.seconds();
    if (i < warm) continue;
    seconds.push_back(one);
    quotients.push_back(other / one);
  }
  const double before = median(std::move(seconds));
  return {before, before * median(std::move(quotients))};
}

std::vector<Removal> removals_to_reach(const CostTarget& goal, const Checkpoint& checkpoint, std::span<const Part> parts,
                                       std::span<const Removal> fixed, const Recipe& recipe, Target target) {
  const ModelConfig& config = checkpoint.config();
  for (const Part part : parts) {
    if (std::ranges::find(fixed, part, &Removal::part) != fixed.end() || std::ranges::count(parts, part) > 1) {
      fail(Errc::invalid_argument, "prune to ", goal.text(), ": expected ", name_of(part), " once");
    }
  }
  const auto shapes_of = [&](std::span<const Removal> removals) { return outline_of(checkpoint, plan_structure(config, removals)); };
  const Checkpoint whole = shapes_of({});
  // A search that compares times would go astray with the first one that something disturbed. Decoding takes as long as its
  // weights take to be read: one measurement tells how long one takes.
  const bool timed = goal.cost == Cost::latency;
  const Cost counted = timed ? Cost::flops : goal.cost;
  const double whole_count = measure_cost(counted, whole, recipe, target);
  double whole_cost = whole_count, rate = 1;  // of cost to count
  if (timed) {
    const Checkpoint half = shapes_of(removals_of(0.5, config, parts, {}).value());
    const auto [before, after] = measure_latencies(whole, half, recipe, target);
    whole_cost = before;
    rate = (before - after) / std::max(1.0, whole_count - measure_cost(counted, half, recipe, target));
  }
  const auto cost_of = [&](std::span<const Removal> removals) {
    return whole_cost - rate * (whole_count - measure_cost(counted, shapes_of(removals), recipe, target));
  };
  const double limit = goal.of_original ? goal.amount * whole_cost : goal.amount;
  constexpr int steps = 1000;
  // Between a share that is too small and one that is not.
  int low = 0, high = steps;
  std::vector<Removal> found;
  double least = cost_of(fixed);
  const char* const unit = timed ? " s" : "";
  if (least <= limit && fixed.empty()) {
    fail(Errc::invalid_argument, "prune to ", goal.text(), ": expected less than ", least, unit, ", what the model costs, found ", limit, unit);
  }
  if (least <= limit) return {fixed.begin(), fixed.end()};
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    const std::optional<std::vector<Removal>> removals = removals_of(static_cast<double>(middle) / steps, config, parts, fixed);
    const double cost = removals ? cost_of(*removals) : 0;
    if (removals) least = std::min(least, cost);
    (removals && cost > limit ? low : high) = middle;
    if (removals && cost <= limit) found = *removals;
  }
  if (!found.empty()) return found;
  fail(Errc::invalid_argument, "prune to ", goal.text(), ": expected at least ", least, unit, ", which these parts can be brought down to, found ", limit, unit);
}

}  // namespace bantam::inline v0
