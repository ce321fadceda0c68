// Causal self-attention with grouped heads and an optional sliding window.
#pragma once

#include <vector>

#include "bantam/core/team.hpp"
#include "bantam/nn/kv_cache.hpp"

namespace bantam::inline v0::nn {

struct AttentionOptions {
  std::int64_t heads = 0;     ///< query heads; a multiple of the cache's key-value heads
  std::int64_t head_dim = 0;  ///< unpadded
  std::int64_t window = 0;    ///< a token sees this many tokens, itself among them; 0: all before it
  float scale = 0;            ///< of the scores; 0 means 1 / sqrt(head_dim)
};

/// One worker's scratch: queries and sums of a block of tokens, and a page of keys and values as floats.
class AttentionScratch {
 public:
  /// Tokens whose queries share one pass over the pages.
  static constexpr std::int64_t block = 16;
  /// From this many rows on a page is made floats once, before they share it.
  static constexpr std::int64_t expanding_rows = 12;

  void resize(std::int64_t padded_dim, std::int64_t group) {
    const auto page = static_cast<std::size_t>(page_tokens * padded_dim);
    const auto rows = static_cast<std::size_t>(block * group * padded_dim);
    keys.ensure(page);
    values.ensure(page);
    queries.ensure(rows);
    sums.ensure(rows);
    states.resize(static_cast<std::size_t>(block * group));
  }
  AlignedBuffer<float> keys, values, queries, sums;
  std::vector<AttentionState> states;
};

/// This worker's share of softmax(q kT scale + mask) v for `tokens` queries at positions first .. of one layer; their
/// keys and values are in the cache already. q, out: (tokens, heads * head_dim), rows `stride` apart. Online softmax:
/// no tokens x tokens matrix exists. Barrier afterwards before anyone reads `out`.
inline void attention(const KernelTable& kernels, const Worker& worker, const KvCache& cache, std::int64_t layer,
                      const AttentionOptions& options, const float* q, std::int64_t q_stride, std::int64_t tokens,
                      std::int64_t first, float* out, std::int64_t out_stride, AttentionScratch& scratch) noexcept {
  const std::int64_t kv_heads = cache.shape().kv_heads;
  const std::int64_t group = options.heads / kv_heads;
  const std::int64_t d = options.head_dim;
  const std::int64_t padded = cache.padded_head_dim();
  const float scale = options.scale != 0 ? options.scale : 1.0f / __builtin_sqrtf(static_cast<float>(d));
  const std::int64_t blocks = div_up<std::int64_t>(tokens, AttentionScratch::block);
  // Later blocks see more keys: dealing units out in turn balances them.
  for (std::int64_t unit = worker.index(); unit < kv_heads * blocks; unit += worker.count()) {
    const std::int64_t kv_head = unit % kv_heads;
    const std::int64_t begin = unit / kv_heads * AttentionScratch::block;
    const std::int64_t end = std::min(begin + AttentionScratch::block, tokens);
    const std::int64_t count = (end - begin) * group;
    for (std::int64_t row = 0; row < count; ++row) {
      float* to = scratch.queries.data() + row * padded;
      std::copy_n(q + (begin + row / group) * q_stride + (kv_head * group + row % group) * d, d, to);
      std::fill(to + d, to + padded, 0.0f);
      scratch.states[static_cast<std::size_t>(row)] = {};
    }
    std::fill_n(scratch.sums.data(), count * padded, 0.0f);
    const AttentionRows rows{scratch.queries.data(), scratch.sums.data(), scratch.states.data(), static_cast<int>(count),
                             static_cast<int>(group), first + begin, options.window};
    const std::int64_t oldest = options.window > 0 ? std::max<std::int64_t>(0, first + begin - options.window + 1) : 0;
    const std::int64_t newest = first + end - 1;
    for (std::int64_t page = oldest / page_tokens; page <= newest / page_tokens; ++page) {
      if (count < AttentionScratch::expanding_rows) {
        cache.attend(kernels, layer, kv_head, page, scale, rows);
        continue;
      }
      const std::int64_t start = page * page_tokens;
      const int held = static_cast<int>(std::min<std::int64_t>(page_tokens, newest - start + 1));
      const auto as_bytes = [](const float* floats) { return reinterpret_cast<const std::byte*>(floats); };
      const float* keys = cache.expand(kernels, layer, false, kv_head, page, held, scratch.keys.data());
      const float* values = cache.expand(kernels, layer, true, kv_head, page, held, scratch.values.data());
      kernels.kv[0].attend({as_bytes(keys), as_bytes(values), start, padded, scale}, rows);
    }
    for (std::int64_t row = 0; row < count; ++row) {
      float* sum = scratch.sums.data() + row * padded;
      kernels.attend_finish(scratch.states[static_cast<std::size_t>(row)], sum, padded);
      std::copy_n(sum, d, out + (begin + row / group) * out_stride + (kv_head * group + row % group) * d);
    }
  }
}

}  // namespace bantam::inline v0::nn
