// Dividing bytes: against all the ways there are, and by laws where there are too many.
#include "bantam/compress/allocate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "bantam/core/random.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

using Tensors = std::vector<std::vector<Choice>>;

/// Costs that fall with bytes as those of formats do, some of them out of line.
Tensors random_tensors(std::uint64_t seed, int tensors, int choices) {
  Random random(seed);
  Tensors result(static_cast<std::size_t>(tensors));
  for (std::vector<Choice>& list : result) {
    const double size = 50 + 1000 * random.uniform() * random.uniform();
    const double weight = std::exp(6 * random.uniform());
    for (int c = 0; c < choices; ++c) {
      const double bits = 2 + 14 * static_cast<double>(c) / choices + random.uniform();
      list.push_back({static_cast<std::int64_t>(size * bits), weight * std::pow(4, -bits) * (0.5 + random.uniform())});
    }
  }
  return result;
}

/// The least cost within a budget, by trying everything.
std::optional<double> best_of_all(const Tensors& tensors, std::int64_t budget, std::size_t from = 0) {
  if (budget < 0) return {};
  if (from == tensors.size()) return 0.0;
  std::optional<double> best;
  for (const Choice& choice : tensors[from]) {
    const auto rest = best_of_all(tensors, budget - choice.bytes, from + 1);
    if (rest && (!best || *rest + choice.cost < *best)) best = *rest + choice.cost;
  }
  return best;
}

std::int64_t least_bytes(const Tensors& tensors) { return trade_off(tensors).front().bytes; }
std::int64_t most_bytes(const Tensors& tensors) { return trade_off(tensors).back().bytes; }

TEST_CASE("within the budget, and rarely worse than the best of all allocations") {
  int cases = 0, exact = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Tensors tensors = random_tensors(seed, 5, 5);
    const std::int64_t least = least_bytes(tensors), most = most_bytes(tensors);
    for (const double share : {0.0, 0.1, 0.25, 0.5, 0.75, 0.95}) {
      const std::int64_t budget = least + static_cast<std::int64_t>(share * static_cast<double>(most - least));
      const Allocation found = allocate(tensors, budget);
      std::int64_t bytes = 0;
      double cost = 0;
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        bytes += tensors[t][found.choices[t]].bytes;
        cost += tensors[t][found.choices[t]].cost;
      }
      CHECK(found.bytes == bytes);
      CHECK(found.cost == doctest::Approx(cost).epsilon(1e-12));
      CHECK(bytes <= budget);
      const double best = best_of_all(tensors, budget).value();
      CHECK(cost >= best * (1 - 1e-12));
      CHECK(cost <= best * 2.5);  // what is left over is large where one of five tensors is
      ++cases;
      exact += cost <= best * (1 + 1e-9);
    }
  }
  CHECK_MESSAGE(exact > 0.9 * cases, exact, " of ", cases);
}

TEST_CASE("a budget of a model's size is used to half a percent, at two percent above the least cost there can be") {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Tensors tensors = random_tensors(seed, 120, 9);
    for (const double share : {0.1, 0.4, 0.8}) {
      const std::int64_t least = least_bytes(tensors);
      const std::int64_t budget =
          least + static_cast<std::int64_t>(share * static_cast<double>(most_bytes(tensors) - least));
      const Allocation found = allocate(tensors, budget);
      CHECK(found.bytes <= budget);
      CHECK(static_cast<double>(found.bytes) > 0.995 * static_cast<double>(budget));
      // No allocation lies below the line between the corners beside the budget.
      const std::vector<Choice> curve = trade_off(tensors);
      const auto above = std::ranges::upper_bound(curve, budget, {}, &Choice::bytes);
      const Choice &a = *(above - 1), &b = *above;
      const double bound =
          a.cost + (b.cost - a.cost) * static_cast<double>(budget - a.bytes) / static_cast<double>(b.bytes - a.bytes);
      CHECK(found.cost >= bound * (1 - 1e-9));
      CHECK(found.cost <= bound * 1.02);
    }
  }
}

TEST_CASE("no allocation is better than the trade-off, which is convex") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Tensors tensors = random_tensors(seed, 4, 4);
    const std::vector<Choice> curve = trade_off(tensors);
    for (std::size_t i = 1; i < curve.size(); ++i) {
      CHECK(curve[i].bytes > curve[i - 1].bytes);
      CHECK(curve[i].cost < curve[i - 1].cost);
      const double share = 0.5;
      const auto between = static_cast<std::int64_t>(share * static_cast<double>(curve[i].bytes + curve[i - 1].bytes));
      CHECK(best_of_all(tensors, between).value() >= share * (curve[i].cost + curve[i - 1].cost) * (1 - 1e-9) - 1e-12);
      // A corner is an allocation itself.
      CHECK(allocate(tensors, curve[i].bytes).cost <= curve[i].cost * (1 + 1e-9) + 1e-12);
      if (i > 1) {
        const auto slope = [&](std::size_t k) {
          return (curve[k - 1].cost - curve[k].cost) / static_cast<double>(curve[k].bytes - curve[k - 1].bytes);
        };
        CHECK(slope(i) <= slope(i - 1) * (1 + 1e-9));
      }
    }
  }
}

TEST_CASE("more bytes never cost more, and enough of them buy the least cost of each") {
  const Tensors tensors = random_tensors(3, 6, 5);
  double least = 0;
  for (const auto& list : tensors) least += std::ranges::min(list, {}, &Choice::cost).cost;
  CHECK(allocate(tensors, std::numeric_limits<std::int64_t>::max() / 2).cost == doctest::Approx(least).epsilon(1e-12));
  CHECK(allocate({}, 0).choices.empty());
}

TEST_CASE("what cannot be allocated is said") {
  const auto says = [](const Tensors& tensors, std::int64_t budget, const char* word) {
    CHECK(error_of([&] { (void)allocate(tensors, budget); }).find(word) != std::string::npos);
  };
  says({{{10, 1.0}}, {{5, 1.0}}}, 14, "at least 15");
  says({{}}, 100, "found none");
  says({{{-1, 1.0}}}, 100, "found -1");
  says({{{1, -1.0}}}, 100, "found");
  says({{{1, std::nan("")}}}, 100, "and nan");
  says({{{1, std::numeric_limits<double>::infinity()}}}, 100, "and inf");
}

}  // namespace
}  // namespace bantam::test
