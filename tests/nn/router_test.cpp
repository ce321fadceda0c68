// Routers: every published form against double precision, ties, and what is refused.
#include "bantam/nn/blocks/router.hpp"

#include <array>

#include "bantam/core/random.hpp"
#include "reference/router.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

struct Published {
  const char* model;
  nn::RouterOptions options;
  bool biased = false;
};

const Published published_routers[] = {
    {"Mixtral", {.score = nn::RouterScore::softmax_of_chosen, .experts = 8, .used = 2}},
    {"Qwen3-30B-A3B", {.experts = 128, .used = 8, .renormalize = true}},
    {"OLMoE, Qwen2-MoE", {.experts = 64, .used = 8}},
    {"gpt-oss-20b", {.score = nn::RouterScore::softmax_of_chosen, .experts = 32, .used = 4}},
    {"DeepSeek V2", {.experts = 160, .used = 6, .groups = 8, .groups_used = 3, .group_best = 1, .scale = 16}},
    {"DeepSeek V3", {.score = nn::RouterScore::sigmoid, .experts = 256, .used = 8, .groups = 8, .groups_used = 4, .renormalize = true, .scale = 2.5f}, true},
    {"GLM-4.5-Air", {.score = nn::RouterScore::sigmoid, .experts = 128, .used = 8, .renormalize = true}, true},
    {"ERNIE 4.5", {.experts = 64, .used = 6, .renormalize = true}, true},
    {"DeepSeek V4", {.score = nn::RouterScore::sqrt_softplus, .experts = 256, .used = 6, .renormalize = true, .scale = 1.5f}, true},
    {"Phi-3.5-MoE", {.score = nn::RouterScore::in_turn, .experts = 16, .used = 2}},
    {"near experts", {.score = nn::RouterScore::in_turn, .experts = 16, .used = 3, .renormalize = true, .scale = 2, .jitter = 0.2f}},
    {"one expert", {.experts = 16, .used = 1}},
    {"all experts", {.score = nn::RouterScore::sigmoid, .experts = 6, .used = 6}},
};

std::vector<float> normal(std::size_t count, Random& random, double deviation) {
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(deviation * random.normal());
  return values;
}

std::vector<nn::RoutedExpert> routed(const nn::RouterOptions& options, std::vector<float> logits, std::span<const float> bias = {}) {
  std::vector<nn::RoutedExpert> chosen(static_cast<std::size_t>(options.used));
  nn::Router(options).route(logits, bias, chosen);
  return chosen;
}

TEST_CASE("every published router chooses and weighs as its definition in double precision") {
  for (const Published& p : published_routers) {
    CAPTURE(std::string(p.model));
    const nn::RouterOptions& o = p.options;
    Random random(7);
    const std::vector<float> bias = p.biased ? normal(static_cast<std::size_t>(o.experts), random, 0.1) : std::vector<float>();
    nn::Router router(o);
    const reference::Router expected_router{static_cast<reference::Score>(o.score), static_cast<std::size_t>(o.used), static_cast<std::size_t>(o.groups),
                                            static_cast<std::size_t>(o.groups_used), static_cast<std::size_t>(o.group_best), o.renormalize, double{o.scale}, double{o.jitter}};
    for (int token = 0; token < 50; ++token) {
      const std::vector<float> logits = normal(static_cast<std::size_t>(o.experts), random, 2);
      std::vector<nn::RoutedExpert> found(static_cast<std::size_t>(o.used));
      router.route(logits, bias, found);
      const auto expected = reference::route(expected_router, logits, bias);
      for (std::size_t i = 0; i < found.size(); ++i) {
        REQUIRE(static_cast<std::size_t>(found[i].expert) == expected[i].first);
        // Scores and weights are each rounded to a float once.
        CHECK(found[i].weight == doctest::Approx(expected[i].second).epsilon(4e-7));
      }
    }
  }
}

TEST_CASE("of equal experts and of equal groups the first are taken, in the order of their numbers") {
  using List = std::vector<nn::RoutedExpert>;
  for (const nn::RouterScore score : {nn::RouterScore::softmax, nn::RouterScore::sigmoid, nn::RouterScore::softmax_of_chosen, nn::RouterScore::sqrt_softplus}) {
    const List chosen = routed({.score = score, .experts = 5, .used = 3, .renormalize = true}, {1, 2, 1, 2, 1});
    CHECK(chosen[0].expert == 0);
    CHECK(chosen[1].expert == 1);
    CHECK(chosen[2].expert == 3);
    CHECK(chosen[1].weight == chosen[2].weight);
  }
  const List grouped = routed({.experts = 6, .used = 2, .groups = 3, .groups_used = 1}, {0, 1, 1, 0, 1, 0});
  CHECK(grouped[0].expert == 0);
  CHECK(grouped[1].expert == 1);
}

TEST_CASE("SparseMixer's experts count as they are apart from those that come after them") {
  const nn::RouterOptions options{.score = nn::RouterScore::in_turn, .experts = 4, .used = 2};
  // Far from the others each counts whole; as near as two in a hundred they share.
  CHECK(routed(options, {1, 4, 2, 3}) == std::vector<nn::RoutedExpert>{{1, 1}, {3, 1}});
  CHECK(routed(options, {1, 2, 1, 2}) == std::vector<nn::RoutedExpert>{{1, 0.5f}, {3, 1}});
  const auto near = routed(options, {1, 4, 3.95f, 3});
  CHECK(near[0].weight == doctest::Approx(1 / (1 + std::exp(-0.05))));
  CHECK(near[1] == nn::RoutedExpert{2, 1});
  CHECK(routed({.score = nn::RouterScore::in_turn, .experts = 4, .used = 2, .jitter = 0.001f}, {1, 4, 3.95f, 3})[0].weight == 1);
}

TEST_CASE("a bias chooses and does not weigh") {
  const std::vector<float> bias = {0, 0, 0, 5};
  const auto plain = routed({.score = nn::RouterScore::sigmoid, .experts = 4, .used = 2}, {3, 2, 1, 0});
  const auto biased = routed({.score = nn::RouterScore::sigmoid, .experts = 4, .used = 2}, {3, 2, 1, 0}, bias);
  CHECK(plain[1].expert == 1);
  CHECK(biased[0] == plain[0]);
  CHECK(biased[1] == nn::RoutedExpert{3, 0.5f});
}

TEST_CASE("groups keep experts out that would have been chosen") {
  // By the sum of two the first group wins, by the best the second, whose other expert is the worst of all.
  const std::vector<float> logits = {2, 2, 3, -5};
  const auto of_two = routed({.score = nn::RouterScore::sigmoid, .experts = 4, .used = 1, .groups = 2, .groups_used = 1}, logits);
  const auto of_one = routed({.score = nn::RouterScore::sigmoid, .experts = 4, .used = 1, .groups = 2, .groups_used = 1, .group_best = 1}, logits);
  CHECK(of_two[0].expert == 0);
  CHECK(of_one[0].expert == 2);
}

TEST_CASE("experts in memory take the places of cold ones that score little more, but for a token's best") {
  for (const Published& p : published_routers) {
    CAPTURE(std::string(p.model));
    Random random(11);
    const auto used = static_cast<std::size_t>(p.options.used), experts = static_cast<std::size_t>(p.options.experts);
    const std::vector<float> bias = p.biased ? normal(experts, random, 0.1) : std::vector<float>();
    nn::RouterOptions o = p.options;
    const auto number_of = [](const std::vector<nn::RoutedExpert>& chosen, auto&& which) { return std::ranges::count_if(chosen, which); };
    for (int token = 0; token < 30; ++token) {
      const std::vector<float> logits = normal(experts, random, 2);
      std::vector<std::uint8_t> cold(experts);
      for (std::uint8_t& c : cold) c = random.uniform() < 0.7;
      const auto is_cold = [&](const nn::RoutedExpert& one) { return cold[static_cast<std::size_t>(one.expert)] != 0; };
      std::vector<nn::RoutedExpert> exact(used), found(used);
      nn::Router(o).route(logits, bias, exact, cold);
      CHECK(exact == routed(o, logits, bias));
      // The more is asked for, the fewer are cold, down to the best.
      auto before = number_of(exact, is_cold);
      for (const float share : {0.2f, 0.6f, 1.0f}) {
        o.cold = {.prefer_cached = share};
        nn::Router(o).route(logits, bias, found, cold);
        CHECK(number_of(found, is_cold) <= before);
        before = number_of(found, is_cold);
        CHECK(std::ranges::is_sorted(found, std::ranges::less_equal(), &nn::RoutedExpert::expert));
      }
      o.cold = {};
      if (p.options.groups > 1 || p.biased) continue;  // groups may have too few, and a bias chooses on
      const auto warm = std::ranges::count(cold, 0);
      CHECK(before <= std::max<std::ptrdiff_t>(static_cast<std::ptrdiff_t>((used + 3) / 4), static_cast<std::ptrdiff_t>(used) - warm));
      // Nobody is passed over where all are cold, or none is.
      for (const std::uint8_t all : std::initializer_list<std::uint8_t>{0, 1}) {
        o.cold = {.prefer_cached = 0.5f};
        const std::vector<std::uint8_t> same(experts, all);
        nn::Router(o).route(logits, {}, found, same);
        if (bias.empty()) CHECK(found == exact);
        o.cold = {};
      }
    }
  }
  // Scores of 0.4, 0.3, 0.2, 0.1: half as good is good enough, a third is not; the best stays.
  const std::vector<float> logits = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  for (const nn::RouterScore score : {nn::RouterScore::softmax, nn::RouterScore::softmax_of_chosen}) {
    const nn::RouterOptions o{.score = score, .experts = 4, .used = 2, .cold = {.prefer_cached = 0.5f}};
    const auto experts_of = [&](std::vector<std::uint8_t> cold) {
      std::vector<nn::RoutedExpert> chosen(2);
      nn::Router(o).route(logits, {}, chosen, cold);
      return std::pair{chosen[0].expert, chosen[1].expert};
    };
    CHECK(experts_of({1, 1, 0, 0}) == std::pair{0, 2});
    CHECK(experts_of({1, 1, 1, 0}) == std::pair{0, 1});
    CHECK(experts_of({0, 1, 0, 1}) == std::pair{0, 2});
  }
}

TEST_CASE("cold experts that count little are left out, and the others count as much more") {
  const std::vector<float> logits = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  const std::vector<std::uint8_t> cold = {1, 0, 1, 0};
  std::vector<nn::RoutedExpert> chosen(3);
  const auto weights = [&](float drop) {
    nn::Router({.experts = 4, .used = 3, .renormalize = true, .cold = {.drop = drop}}).route(logits, {}, chosen, cold);
    std::vector<float> all(4);
    for (const nn::RoutedExpert& one : chosen) all[static_cast<std::size_t>(one.expert)] += one.weight;
    return all;
  };
  const auto near = [](const std::vector<float>& found, const std::vector<float>& expected) {
    for (std::size_t i = 0; i < 4; ++i) CHECK(found[i] == doctest::Approx(expected[i]));
  };
  near(weights(0), {4 / 9.f, 3 / 9.f, 2 / 9.f, 0});
  near(weights(0.2f), {4 / 9.f, 3 / 9.f, 2 / 9.f, 0});
  near(weights(0.25f), {4 / 7.f, 3 / 7.f, 0, 0});
  CHECK(std::ranges::is_sorted(chosen, {}, &nn::RoutedExpert::expert));
  // The one that counts most stays, and what is in memory.
  near(weights(1), {4 / 7.f, 3 / 7.f, 0, 0});
}

TEST_CASE("logits that are no numbers, or far out, choose experts that exist") {
  constexpr float none = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  for (const nn::RouterScore score : {nn::RouterScore::softmax, nn::RouterScore::sigmoid, nn::RouterScore::softmax_of_chosen, nn::RouterScore::sqrt_softplus, nn::RouterScore::in_turn}) {
    for (const std::array<float, 4>& logits : {std::array<float, 4>{none, none, none, none}, {none, 1, none, 2}, {infinite, 0, -infinite, infinite}, {3e38f, -3e38f, 0, 3e38f}}) {
      const auto chosen = routed({.score = score, .experts = 4, .used = 2}, {logits.begin(), logits.end()});
      CHECK(chosen[0].expert >= 0);
      CHECK(chosen[0].expert < chosen[1].expert);
      CHECK(chosen[1].expert < 4);
    }
  }
  const auto chosen = routed({.experts = 4, .used = 2}, {none, 1, none, 2});
  CHECK(chosen[0].expert == 1);
  CHECK(chosen[1].expert == 3);
}

TEST_CASE("numbers that do not go together are refused") {
  const std::vector<float> bias(3);
  for (const auto& [options, words] : std::initializer_list<std::pair<nn::RouterOptions, const char*>>{
           {{.experts = 4, .used = 5}, "1 to 4 experts a token, found 5"},
           {{.experts = 4, .used = 0}, "1 to 4 experts a token, found 0"},
           {{.experts = 4, .used = 1, .groups = 3}, "groups that divide 4 experts, found 3"},
           {{.experts = 4, .used = 1, .groups = 2, .groups_used = 3}, "1 to 2 groups a token, found 3"},
           {{.experts = 4, .used = 3, .groups = 2}, "3 experts or more in 1 groups, found 2"},
           {{.experts = 4, .used = 1, .groups = 4}, "groups that count as 1 or 2 of their experts, found 2"}}) {
    has(error_of([&] { (void)nn::Router(options); }), words);
  }
}

}  // namespace
}  // namespace bantam::test
