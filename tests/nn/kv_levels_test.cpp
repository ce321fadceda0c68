// Attention over pages that rotate the numbers of a head: queries are rotated as keys are, and sums of values back.
#include <cmath>
#include <vector>

#include "bantam/nn/attention.hpp"
#include "bantam/nn/kv_cache.hpp"
#include "bantam/tensor/random.hpp"
#include "limits.hpp"
#include "reference/kv_levels.hpp"
#include "reference/softmax.hpp"
#include "support.hpp"

using bantam::kernels_in_use;
using bantam::nn::KvCache;
using bantam::nn::KvLayer;

namespace {

struct Asked {
  KvLayer layer;
  std::int64_t heads = 0;
  std::int64_t window = 0;
  bool sinks = false, slopes = false;
};

/// A key or value as the page has it, made plain again in double precision.
std::vector<double> kept(const KvCache& cache, bool value, std::int64_t head, std::int64_t token, std::int64_t numbers) {
  std::vector<float> room(static_cast<std::size_t>(bantam::page_tokens * cache.padded_head_dim()));
  const float* page = cache.expand(kernels_in_use(), 0, value, head, token / 64, static_cast<int>(token % 64) + 1, room.data());
  std::vector<double> rotated;
  for (std::int64_t i = 0; i < numbers; ++i) rotated.push_back(page[value ? token % 64 * ((numbers + 15) / 16 * 16) + i : i * 64 + token % 64]);
  return bantam::reference::hadamard_rotated(rotated, static_cast<std::size_t>(cache.rotation_block(0, value)));
}

/// The largest difference of attention over a cache from the whole softmax over what the cache holds.
double worst_of(const char* kind, const Asked& asked, std::int64_t block) {
  const KvLayer& l = asked.layer;
  const std::int64_t tokens = bantam::test::quick() ? 70 : 150, group = asked.heads / l.heads, latent = l.latent_dim, value_dim = latent > 0 ? latent : l.value_dim;
  KvCache cache({.layers = 1, .kv_heads = l.heads, .head_dim = std::max(l.key_dim, value_dim), .of_layers = {l}}, kind);
  CHECK(cache.rotation_block(0, false) == block);
  cache.extend(tokens);
  const auto q = bantam::random::normal<float>({tokens, asked.heads, l.key_dim}, 81);
  const auto numbers = bantam::random::normal<float>({2, tokens, l.heads, cache.padded_head_dim()}, 82);
  std::vector<float> row(static_cast<std::size_t>(cache.padded_head_dim()));
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t h = 0; h < l.heads; ++h) {
      for (const bool value : {false, true}) {
        if (value && latent > 0) continue;
        std::fill(row.begin(), row.end(), 0.0F);
        std::copy_n(&numbers(value ? 1 : 0, t, h, 0), value ? l.value_dim : l.key_dim, row.begin());
        cache.store(kernels_in_use(), 0, value, h, t, row.data());
      }
    }
  }
  const std::vector<float> sinks(static_cast<std::size_t>(asked.heads), 0.7F), slopes(static_cast<std::size_t>(asked.heads), 0.05F);
  bantam::nn::Attention attention({.heads = asked.heads, .kv_heads = l.heads, .head_dim = l.key_dim, .value_dim = value_dim}, 2);
  bantam::Team team(2);
  team.set_active(2);
  std::vector<float> out(static_cast<std::size_t>(tokens * asked.heads * value_dim));
  // A prompt, whose pages are made floats, and single tokens, whose are not.
  const std::int64_t prompt = tokens - 20;
  for (std::int64_t first = 0; first < tokens; first += first == 0 ? prompt : 1) {
    const bantam::nn::AttentionSequence sequence{&cache, first, first == 0 ? prompt : 1, first};
    attention.plan({&sequence, 1});
    attention.run(kernels_in_use(), team, 0, asked.window, {q.data(), asked.heads * l.key_dim}, {out.data(), asked.heads * value_dim}, 0, asked.sinks ? sinks.data() : nullptr,
                  asked.slopes ? slopes.data() : nullptr);
  }
  double worst = 0;
  for (std::int64_t h = 0; h < asked.heads; ++h) {
    std::vector<std::vector<double>> keys, values;
    for (std::int64_t t = 0; t < tokens; ++t) {
      keys.push_back(kept(cache, false, h / group, t, l.key_dim));
      values.push_back(latent > 0 ? std::vector<double>(keys.back().end() - latent, keys.back().end()) : kept(cache, true, h / group, t, l.value_dim));
    }
    for (std::int64_t i = 0; i < tokens; ++i) {
      std::vector<double> scores;
      const std::int64_t oldest = asked.window > 0 ? std::max<std::int64_t>(0, i - asked.window + 1) : 0;
      for (std::int64_t j = oldest; j <= i; ++j) {
        double dot = 0;
        for (std::int64_t d = 0; d < l.key_dim; ++d) dot += static_cast<double>(q(i, h, d)) * keys[static_cast<std::size_t>(j)][static_cast<std::size_t>(d)];
        scores.push_back(dot / std::sqrt(static_cast<double>(l.key_dim)) - (asked.slopes ? static_cast<double>(slopes[0]) * static_cast<double>(i - j) : 0));
      }
      if (asked.sinks) scores.push_back(static_cast<double>(sinks[0]));
      const std::vector<double> p = bantam::reference::softmax(scores);
      for (std::int64_t d = 0; d < value_dim; ++d) {
        double sum = 0;
        for (std::int64_t j = oldest; j <= i; ++j) sum += p[static_cast<std::size_t>(j - oldest)] * values[static_cast<std::size_t>(j)][static_cast<std::size_t>(d)];
        worst = std::max(worst, std::fabs(sum - static_cast<double>(out[static_cast<std::size_t>((i * asked.heads + h) * value_dim + d)])));
      }
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("attention over rotated pages is the whole softmax over what they hold") {
  const std::pair<Asked, std::int64_t> cases[] = {
      {{.layer = {2, 64, 64}, .heads = 4}, 64},
      {{.layer = {1, 64, 64}, .heads = 2, .window = 9, .sinks = true}, 64},
      {{.layer = {2, 8, 8}, .heads = 2, .slopes = true}, 8},
      {{.layer = {1, 20, 20}, .heads = 3}, 4},
      {{.layer = {1, 80, 48}, .heads = 1, .sinks = true}, 16},
      {{.layer = {1, 15, 15}, .heads = 2}, 1},
      {{.layer = {1, 48, 0, 0, 32}, .heads = 4}, 16},   // latent
      {{.layer = {1, 128, 0, 0, 96}, .heads = 2}, 32},  // its values do not begin at a multiple of 128
  };
  for (const bantam::KvKernels& kv : bantam::kernel_tables().back()->kv) {
    if (!kv.rotates) continue;
    for (const auto& [asked, block] : cases) {
      CAPTURE(std::string(kv.name));
      CAPTURE(asked.layer.key_dim);
      CAPTURE(asked.layer.latent_dim);
      // Scores are sums of up to 128 products of numbers near 1, rounded to 2^-24 each; outputs are near 1.
      CHECK(worst_of(kv.name, asked, block) < 2e-5);
    }
  }
}

TEST_CASE("heads of odd sizes and kinds of more bits are not rotated") {
  CHECK(KvCache({1, 1, 15}, "q4").rotation_block(0, false) == 1);
  CHECK(KvCache({1, 1, 4096}, "q4").rotation_block(0, true) == 1024);
  for (const char* kind : {"f32", "f16", "q8"}) CHECK(KvCache({1, 1, 64}, kind).rotation_block(0, false) == 1);
  // Of latent layers that do not say which numbers are values.
  CHECK(KvCache({.layers = 1, .kv_heads = 1, .head_dim = 64, .of_layers = {{1, 64, 0}}}, "q3").rotation_block(0, false) == 1);
}
