// Biases by distance: T5's buckets, and what attention makes of them.
#include "bantam/nn/relative_bias.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "bantam/core/random.hpp"
#include "bantam/core/team.hpp"
#include "bantam/nn/attention.hpp"
#include "reference/softmax.hpp"

namespace {

using bantam::nn::bucket_of;
using bantam::nn::RelativeBias;
using bantam::nn::RelativeBiasOptions;
using bantam::nn::Sight;

constexpr RelativeBiasOptions t5{.buckets = 32, .distance = 128};

std::vector<float> numbers(std::int64_t count, std::uint64_t seed) {
  bantam::Random random(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(random.normal()));
  return values;
}

}  // namespace

TEST_CASE("buckets are those of T5's code, computed by hand") {
  for (const auto& [distance, bucket] : {std::pair{0, 0}, {-1, 1}, {-7, 7}, {-8, 8}, {-11, 8}, {-12, 9}, {-15, 9}, {-16, 10}, {-32, 12}, {-64, 14}, {-127, 15}, {-128, 15}, {-5000, 15},
                                         {1, 17}, {7, 23}, {8, 24}, {16, 26}, {127, 31}, {5000, 31}}) {
    CAPTURE(distance);
    CHECK(bucket_of(distance, true, t5) == bucket);
  }
  for (const auto& [distance, bucket] : {std::pair{0, 0}, {3, 0}, {500, 0}, {-1, 1}, {-15, 15}, {-16, 16}, {-18, 16}, {-19, 17}, {-31, 21}, {-32, 21}, {-112, 30}, {-127, 31}, {-128, 31}, {-5000, 31}}) {
    CAPTURE(distance);
    CHECK(bucket_of(distance, false, t5) == bucket);
  }
}

TEST_CASE("attention adds the number of each key's bucket to its score, on every table, in pages of any kind") {
  const std::int64_t heads = 2, dim = 16, tokens = 300;
  const std::vector<float> q = numbers(tokens * heads * dim, 1), k = numbers(tokens * heads * dim, 2), v = numbers(tokens * heads * dim, 3), weights = numbers(32 * heads, 4);
  const auto at = [&](const std::vector<float>& x, std::int64_t t, std::int64_t h, std::int64_t i) { return static_cast<double>(x[static_cast<std::size_t>((t * heads + h) * dim + i)]); };
  for (const Sight sight : {Sight::back, Sight::round}) {
    RelativeBias bias(t5, heads, sight == Sight::round);
    bias.set(weights, heads);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < tokens; ++i) {
      for (std::int64_t h = 0; h < heads; ++h) {
        std::vector<double> scores;
        for (std::int64_t j = 0; j < (sight == Sight::back ? i + 1 : tokens); ++j) {
          double dot = static_cast<double>(weights[static_cast<std::size_t>(bucket_of(j - i, sight == Sight::round, t5) * heads + h)]);
          for (std::int64_t c = 0; c < dim; ++c) dot += 0.25 * at(q, i, h, c) * at(k, j, h, c);
          scores.push_back(dot);
        }
        const std::vector<double> p = bantam::reference::softmax(scores);
        for (std::int64_t c = 0; c < dim; ++c) {
          double sum = 0;
          for (std::size_t j = 0; j < p.size(); ++j) sum += p[j] * at(v, static_cast<std::int64_t>(j), h, c);
          expected.push_back(sum);
        }
      }
    }
    for (const bantam::KernelTable* table : bantam::kernel_tables()) {
      for (const auto& [kind, allowed] : {std::pair<const char*, double>{"f32", 2e-5}, {"f16", 1e-2}}) {
        CAPTURE(std::string(table->name));
        CAPTURE(std::string(kind));
        bantam::nn::KvCache cache({.layers = 1, .kv_heads = heads, .head_dim = dim}, kind);
        cache.extend(tokens);
        for (std::int64_t t = 0; t < tokens; ++t) {
          for (std::int64_t h = 0; h < heads; ++h) {
            cache.store(*table, 0, false, h, t, k.data() + (t * heads + h) * dim);
            cache.store(*table, 0, true, h, t, v.data() + (t * heads + h) * dim);
          }
        }
        for (const int threads : {1, 3}) {
          bantam::Team team(threads);
          bantam::nn::Attention attention({.heads = heads, .kv_heads = heads, .head_dim = dim, .scale = 0.25F, .sight = sight}, threads);
          std::vector<float> out(q.size());
          attention.plan(std::vector<bantam::nn::AttentionSequence>{{&cache, 0, tokens, 0}});
          attention.run(*table, team, 0, 0, {q.data(), heads * dim}, {out.data(), heads * dim}, 0, nullptr, nullptr, &bias);
          double worst = 0;
          for (std::size_t i = 0; i < out.size(); ++i) worst = std::max(worst, std::fabs(static_cast<double>(out[i]) - expected[i]));
          CHECK(worst < allowed);
        }
      }
    }
  }
}
