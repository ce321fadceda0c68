// From sensitivities to a recipe.
#include "bantam/compress/fit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "bantam/model/expert_names.hpp"
#include "bantam/model/roles.hpp"
#include "calibrate/model_source.hpp"
#include "output.hpp"
#include "plan.hpp"

namespace bantam::inline v0 {

namespace {

using Choices = std::vector<std::vector<Choice>>;

std::vector<const CheckpointTensor*> matrices_of(const Checkpoint& checkpoint) {
  std::vector<const CheckpointTensor*> matrices;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.is_matrix) matrices.push_back(&tensor);
  }
  return matrices;
}

/// Which sensitivity is that of each matrix.
std::vector<std::size_t> places_of(const std::vector<const CheckpointTensor*>& matrices, std::span<const Sensitivity> sensitivities) {
  std::map<std::string_view, std::size_t> by_name;
  std::size_t names = 0;
  for (std::size_t i = 0; i < sensitivities.size(); ++i) {
    by_name[sensitivities[i].name] = i;
    for (const std::string& other : sensitivities[i].others) by_name[other] = i;
    names += 1 + sensitivities[i].others.size();
  }
  std::vector<std::size_t> places;
  for (const CheckpointTensor* matrix : matrices) {
    if (const auto found = by_name.find(matrix->name); found != by_name.end()) places.push_back(found->second);
  }
  if (places.size() != matrices.size() || names != matrices.size())
    fail(Errc::invalid_argument, "fit: expected the sensitivities of this checkpoint's matrices, found others");
  return places;
}

void check(const Budget& budget) {
  const bool one = (budget.bytes > 0) != (budget.bits_per_weight > 0);
  if (!one || budget.bytes < 0 || budget.bits_per_weight < 0 || !std::isfinite(budget.bits_per_weight)) {
    fail(Errc::invalid_argument, "budget: expected bytes or bits a weight above 0, found ", budget.bytes, " bytes and ",
         budget.bits_per_weight, " bits");
  }
}

/// The recipe with these formats: most weights of the blocks get its own, the others exceptions by their full names, or by one for
/// all experts of a layer.
Recipe with_formats(const Recipe& recipe, const Checkpoint& checkpoint, const std::vector<const CheckpointTensor*>& matrices,
                    const std::vector<const FormatInfo*>& formats) {
  std::map<std::pair<int, std::string_view>, std::int64_t> weights;  // by place in the list of formats, and name
  std::map<std::string, std::set<const FormatInfo*>> of_experts;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    if (!info_of(matrices[i]->role).is_table()) weights[{formats[i]->held_index, formats[i]->name}] += matrices[i]->rows * matrices[i]->columns;
    if (matrices[i]->expert >= 0) of_experts[name_of_experts(matrices[i]->name, matrices[i]->expert)].insert(formats[i]);
  }
  const auto most = std::ranges::max_element(weights, {}, [](const auto& entry) { return entry.second; });
  const FormatInfo& body = most != weights.end() ? find_format(most->first.second) : *formats.front();
  Recipe result = Recipe(body, recipe.method(), recipe.options()).for_model(checkpoint);
  for (const Recipe::Exception& exception : recipe.exceptions()) result.keep(exception.pattern, exception.format->name);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    if (&result.format_of(matrices[i]->name, info_of(matrices[i]->role).is_table()) == formats[i]) continue;
    std::string name = name_of_experts(matrices[i]->name, matrices[i]->expert);
    const bool alike = matrices[i]->expert >= 0 && of_experts.at(name).size() == 1;
    result.keep(alike ? std::move(name) : matrices[i]->name, formats[i]->name);
  }
  return result;
}

std::int64_t sum_of_least(const Choices& choices) {
  std::int64_t sum = 0;
  for (const std::vector<Choice>& list : choices) sum += std::ranges::min(list, {}, &Choice::bytes).bytes;
  return sum;
}

std::string in_bits(std::int64_t bytes, std::int64_t weights) {
  return message(std::round(8e4 * static_cast<double>(bytes) / static_cast<double>(weights)) / 1e4);
}

}  // namespace

Fit fit(const Checkpoint& checkpoint, const Recipe& recipe, std::span<const Sensitivity> sensitivities,
        const Budget& budget, Target target) {
  const ModelSource source(checkpoint, recipe.options().rotation);  // rotated, a tied model has a head
  const std::vector<const CheckpointTensor*> matrices = matrices_of(source.checkpoint());
  const std::vector<std::size_t> places = places_of(matrices, sensitivities);
  check(budget);
  const bool counts_file = budget.bytes > 0;
  Choices choices;
  for (const Sensitivity& sensitivity : sensitivities) {
    choices.emplace_back();
    for (const FormatCost& cost : sensitivity.formats) choices.back().push_back({0, cost.kl});
  }
  std::int64_t weights = 0;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const CheckpointTensor& tensor = *matrices[i];
    weights += tensor.rows * tensor.columns;
    const std::vector<FormatCost>& formats = sensitivities[places[i]].formats;
    for (std::size_t f = 0; f < formats.size(); ++f) {
      const StoredSize size = stored_size(target, tensor.rows, tensor.columns, *formats[f].format);
      choices[places[i]][f].bytes += counts_file ? round_up(size.bytes, size.alignment) : size.bytes;
    }
  }
  const auto recipe_of = [&](const Allocation& allocation) {
    std::vector<const FormatInfo*> formats;
    for (const std::size_t place : places) formats.push_back(sensitivities[place].formats[allocation.choices[place]].format);
    return with_formats(recipe, source.checkpoint(), matrices, formats);
  };
  const auto counted = [&](const Plan& plan) {
    std::int64_t bytes = counts_file ? plan.bytes : 0;
    for (const Plan::Matrix& matrix : plan.matrices) bytes += counts_file ? 0 : matrix.bytes;
    return bytes;
  };
  const std::int64_t limit =
      counts_file ? budget.bytes : static_cast<std::int64_t>(budget.bits_per_weight * static_cast<double>(weights) / 8);
  // What the file has besides matrices depends on the plan by its record of formats, no more.
  const Allocation smallest = allocate(choices, sum_of_least(choices));
  const std::int64_t least = counted(plan_file(checkpoint, recipe_of(smallest), target));
  const std::int64_t besides = least - smallest.bytes;
  const std::vector<Choice> curve = bantam::trade_off(choices);
  if (least > limit) {
    const std::int64_t most = counted(plan_file(checkpoint, recipe_of(allocate(choices, curve.back().bytes)), target));
    if (counts_file) fail(Errc::invalid_argument, "budget: expected ", least, " to ", most, " bytes, found ", limit);
    fail(Errc::invalid_argument, "budget: expected ", in_bits(least, weights), " to ", in_bits(most, weights),
         " bits a weight, found ", budget.bits_per_weight);
  }
  Fit result{recipe_of(smallest), {}, {}, 0, curve, false};
  result.plan = plan_file(checkpoint, result.recipe, target);
  Allocation best = smallest;
  // Bytes for matrices: surely within the limit, and perhaps above it: another plan's header is longer or shorter.
  std::int64_t low = smallest.bytes,
               high = limit - besides + (counts_file ? static_cast<std::int64_t>(native::alignment) : 0) + 1;
  std::int64_t left = high - 1;
  for (int tries = 0; tries < 12 && left > low; ++tries) {
    const Allocation allocation = allocate(choices, left);
    Recipe tried = recipe_of(allocation);
    Plan plan = plan_file(checkpoint, tried, target);
    const std::int64_t over = counted(plan) - limit;
    (over <= 0 ? low : high) = left;
    if (over <= 0 && allocation.cost < best.cost) {
      best = allocation;
      result.recipe = std::move(tried);
      result.plan = std::move(plan);
    }
    if (high - low <= static_cast<std::int64_t>(native::alignment)) break;
    left = tries == 0 ? std::max(left - over, low) : low + (high - low) / 2;
  }
  for (const std::size_t place : places) {
    const double together = sensitivities[place].formats[best.choices[place]].kl;
    result.kl.push_back(together / static_cast<double>(1 + sensitivities[place].others.size()));
  }
  result.expected_kl = best.cost;
  result.at_best = best.bytes >= curve.back().bytes;
  for (Choice& point : result.trade_off) point.bytes += result.plan.bytes - best.bytes;
  return result;
}

}  // namespace bantam::inline v0
