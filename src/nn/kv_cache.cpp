// Taking tokens out of the middle of a cache.
#include "bantam/nn/kv_cache.hpp"

#include <cstring>

#include "bantam/kernels/kv_page.hpp"

namespace bantam::inline v0::nn {

namespace {

/// Copies the value of one token to a place in another page, bit for bit.
template <class Kv>
void copy_value(const std::byte* from, std::int64_t from_token, std::byte* to, std::int64_t to_token, std::int64_t head_dim) noexcept {
  const std::int64_t numbers = head_dim * Kv::bits / 8;
  const std::int64_t sides = div_up<std::int64_t>(head_dim, 32) * Kv::sides * 4;
  std::memcpy(to + to_token * numbers, from + from_token * numbers, static_cast<std::size_t>(numbers));
  std::memcpy(to + page_tokens * numbers + to_token * sides, from + page_tokens * numbers + from_token * sides, static_cast<std::size_t>(sides));
}

/// In the order of KernelTable::kv.
constexpr decltype(&copy_value<KvF32>) copies[] = {copy_value<KvF32>, copy_value<KvF16>, copy_value<KvI8>, copy_value<KvI4>};

}  // namespace

void KvCache::remove(const KernelTable& kernels, Team& team, std::int64_t first, std::int64_t last, FunctionRef<void(std::int64_t layer, float* key)> turn) {
  BANTAM_ASSERT(first >= 0 && first <= last && last <= tokens_);
  if (last == tokens_) return truncate(first);
  // Pages in front of `first` are shared with what this was; what is written goes to pages of its own.
  KvCache moved = *this;
  moved.truncate(first);
  moved.extend(tokens_ - last);
  const auto move_head = [&](std::int64_t layer, std::int64_t head, float* scratch, float* key) {
    const float* keys = nullptr;
    for (std::int64_t token = last; token < tokens_; ++token) {
      const std::int64_t page = token / page_tokens, at = token % page_tokens;
      if (keys == nullptr || at == 0) {
        const auto valid = static_cast<int>(std::min<std::int64_t>(page_tokens, tokens_ - page * page_tokens));
        keys = expand(kernels, layer, false, head, page, valid, scratch);
      }
      for (std::int64_t i = 0; i < of(layer).key_dim; ++i) key[i] = keys[i * page_tokens + at];
      turn(layer, key);
      const std::int64_t to = token - (last - first);
      moved.store(kernels, layer, false, head, to, key);
      if (is_latent(layer)) continue;
      copies[kind_](place(layer, true, head, page), at, moved.place(layer, true, head, to / page_tokens), to % page_tokens, of(layer).value_dim);
    }
  };
  // Of each worker: a page of keys, and one key.
  const std::int64_t room = (page_tokens + 1) * padded_dim_;
  std::vector<float> scratch(static_cast<std::size_t>(team.size() * room));
  team.deal(shape_.layers, 1, [&](Range layers, int worker) {
    float* const keys = scratch.data() + worker * room;
    for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) {
      for (std::int64_t head = 0; head < of(layer).heads; ++head) move_head(layer, head, keys, keys + page_tokens * padded_dim_);
    }
  });
  *this = std::move(moved);
}

}  // namespace bantam::inline v0::nn
