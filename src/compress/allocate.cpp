// Convex hulls, prices, and what is left over.
#include "bantam/compress/allocate.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

namespace {

using Tensors = std::span<const std::vector<Choice>>;

/// From one choice of a tensor to another.
struct Change {
  std::size_t tensor = 0;
  std::size_t to = 0;
  std::int64_t bytes = 0;  ///< more than before
  double gain = 0;         ///< less cost than before
};

double gain_per_byte(const Choice& a, const Choice& b) {
  return (a.cost - b.cost) / static_cast<double>(b.bytes - a.bytes);
}

/// Corners of the lower convex hull, by bytes: costs fall, and by less and less a byte.
std::vector<std::size_t> hull_of(const std::vector<Choice>& choices) {
  std::vector<std::size_t> order(choices.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return choices[a].bytes != choices[b].bytes ? choices[a].bytes < choices[b].bytes
                                                : choices[a].cost < choices[b].cost;
  });
  std::vector<std::size_t> hull;
  for (const std::size_t i : order) {
    if (!hull.empty() && choices[i].cost >= choices[hull.back()].cost) continue;
    while (hull.size() > 1 && gain_per_byte(choices[hull[hull.size() - 2]], choices[hull.back()]) <=
                                  gain_per_byte(choices[hull.back()], choices[i])) {
      hull.pop_back();
    }
    hull.push_back(i);
  }
  return hull;
}

void check(Tensors tensors) {
  for (const std::vector<Choice>& choices : tensors) {
    if (choices.empty()) fail(Errc::invalid_argument, "allocate: expected a choice for each tensor, found none");
    for (const Choice& choice : choices) {
      if (choice.bytes < 0 || !std::isfinite(choice.cost) || choice.cost < 0) {
        fail(Errc::invalid_argument, "allocate: expected bytes and costs of 0 or more, found ", choice.bytes, " and ",
             choice.cost);
      }
    }
  }
}

void add_up(Tensors tensors, Allocation& allocation) {
  allocation.bytes = 0;
  allocation.cost = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const Choice& choice = tensors[t][allocation.choices[t]];
    allocation.bytes += choice.bytes;
    allocation.cost += choice.cost;
  }
}

struct Ladder {
  Allocation smallest;
  std::vector<Change> steps;  ///< along the hulls, the most gain a byte first
};

Ladder ladder_of(Tensors tensors) {
  check(tensors);
  Ladder ladder;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::vector<std::size_t> hull = hull_of(tensors[t]);
    ladder.smallest.choices.push_back(hull[0]);
    for (std::size_t i = 1; i < hull.size(); ++i) {
      const Choice &from = tensors[t][hull[i - 1]], &to = tensors[t][hull[i]];
      ladder.steps.push_back({t, hull[i], to.bytes - from.bytes, from.cost - to.cost});
    }
  }
  add_up(tensors, ladder.smallest);
  // Stable: the steps of a tensor stay in their order.
  std::ranges::stable_sort(ladder.steps, [](const Change& a, const Change& b) {
    return a.gain / static_cast<double>(a.bytes) > b.gain / static_cast<double>(b.bytes);
  });
  return ladder;
}

/// The change, or two of them, that lower the cost most within `room` bytes; none where nothing does.
std::vector<Change> best_changes(Tensors tensors, const Allocation& now, std::int64_t room) {
  std::vector<Change> gains, losses;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const Choice& from = tensors[t][now.choices[t]];
    for (std::size_t c = 0; c < tensors[t].size(); ++c) {
      const Change change{t, c, tensors[t][c].bytes - from.bytes, from.cost - tensors[t][c].cost};
      if (change.gain > 0) gains.push_back(change);
      if (change.gain <= 0 && change.bytes < 0) losses.push_back(change);
    }
  }
  std::ranges::stable_sort(gains, {}, &Change::bytes);
  // Of each beginning of the list, the largest gain, and the largest of another tensor.
  std::vector<std::pair<const Change*, const Change*>> largest;
  for (const Change& change : gains) {
    auto [first, second] = largest.empty() ? std::pair<const Change*, const Change*>() : largest.back();
    if (first == nullptr || change.gain > first->gain) {
      if (first != nullptr && first->tensor != change.tensor) second = first;
      first = &change;
    } else if (change.tensor != first->tensor && (second == nullptr || change.gain > second->gain)) {
      second = &change;
    }
    largest.emplace_back(first, second);
  }
  const auto largest_within = [&](std::int64_t bytes, std::size_t other_than) -> const Change* {
    const auto end = std::ranges::upper_bound(gains, bytes, {}, &Change::bytes) - gains.begin();
    if (end == 0) return nullptr;
    const auto& [first, second] = largest[static_cast<std::size_t>(end - 1)];
    return first->tensor != other_than ? first : second;
  };
  std::vector<Change> best;
  double most = 1e-12 * now.cost;  // below, sums of doubles could go round in a circle
  if (const Change* single = largest_within(room, tensors.size()); single != nullptr && single->gain > most) {
    best = {*single};
    most = single->gain;
  }
  for (const Change& loss : losses) {
    const Change* gain = largest_within(room - loss.bytes, loss.tensor);
    if (gain == nullptr || loss.gain + gain->gain <= most) continue;
    best = {loss, *gain};
    most = loss.gain + gain->gain;
  }
  return best;
}

/// Steps along the hulls as far as they fit.
Allocation climb(Tensors tensors, const Ladder& ladder, std::int64_t budget) {
  Allocation result = ladder.smallest;
  std::vector<bool> stuck(tensors.size());
  for (const Change& step : ladder.steps) {
    if (stuck[step.tensor]) continue;
    if (result.bytes + step.bytes > budget) {
      stuck[step.tensor] = true;
      continue;
    }
    result.choices[step.tensor] = step.to;
    result.bytes += step.bytes;
  }
  add_up(tensors, result);
  return result;
}

/// Makes use of what is left.
void fill(Tensors tensors, Allocation& allocation, std::int64_t budget) {
  // Each change lowers the cost, so there is an end; models take a few dozen.
  for (int changes = 0; changes < 10'000; ++changes) {
    const std::vector<Change> best = best_changes(tensors, allocation, budget - allocation.bytes);
    if (best.empty()) break;
    for (const Change& change : best) allocation.choices[change.tensor] = change.to;
    add_up(tensors, allocation);
  }
}

}  // namespace

Allocation allocate(Tensors tensors, std::int64_t budget) {
  const Ladder ladder = ladder_of(tensors);
  const std::int64_t room = budget - ladder.smallest.bytes;
  if (room < 0) {
    fail(Errc::invalid_argument, "budget: expected at least ", ladder.smallest.bytes, " bytes, found ", budget);
  }
  // Where few tensors are large parts of the whole, the best price leaves much over, and a lower start may end higher.
  Allocation best;
  for (const double share : {1.0, 0.95, 0.85, 0.7, 0.5, 0.0}) {
    Allocation found = climb(tensors, ladder, budget - static_cast<std::int64_t>((1 - share) * static_cast<double>(room)));
    fill(tensors, found, budget);
    if (best.choices.empty() || found.cost < best.cost) best = std::move(found);
  }
  return best;
}

std::vector<Choice> trade_off(Tensors tensors) {
  const Ladder ladder = ladder_of(tensors);
  std::vector<Choice> points{{ladder.smallest.bytes, ladder.smallest.cost}};
  for (const Change& step : ladder.steps)
    points.push_back({points.back().bytes + step.bytes, std::max(0.0, points.back().cost - step.gain)});
  return points;
}

}  // namespace bantam::inline v0
