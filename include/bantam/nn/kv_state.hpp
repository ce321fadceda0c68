// Keys and values as a part of a sequence's state.
#pragma once

#include <cstring>
#include <memory>
#include <utility>

#include "bantam/nn/kv_cache.hpp"
#include "bantam/nn/sequence_state.hpp"

namespace bantam::inline v0::nn {

/// What attention remembers. Pages are cut at any token, and saved whole, one after another.
class KvState final : public BlockState {
 public:
  explicit KvState(KvCache cache) : cache_(std::move(cache)) {}

  [[nodiscard]] KvCache& cache() noexcept { return cache_; }
  [[nodiscard]] const KvCache& cache() const noexcept { return cache_; }

  [[nodiscard]] std::int64_t tokens() const noexcept override { return cache_.tokens(); }
  void extend(std::int64_t count) override { cache_.extend(count); }
  void truncate(std::int64_t tokens) noexcept override { cache_.truncate(tokens); }
  [[nodiscard]] std::unique_ptr<BlockState> fork() const override { return std::make_unique<KvState>(*this); }
  void save(StateSink sink) const override;
  void restore(std::int64_t tokens, StateSource in) override;
  [[nodiscard]] std::int64_t bytes() const noexcept override { return cache_.bytes(); }
  [[nodiscard]] std::int64_t bytes_per_token() const noexcept override { return cache_.bytes_per_token(); }

 private:
  KvCache cache_;
};

/// Of a sequence that has read nothing, in a model whose only state is keys and values. Throws as KvCache does.
[[nodiscard]] inline SequenceState kv_sequence(const KvShape& shape, std::string_view kind) {
  std::vector<std::unique_ptr<BlockState>> blocks;
  blocks.push_back(std::make_unique<KvState>(KvCache(shape, kind)));
  return SequenceState(std::move(blocks));
}
/// Keys and values of a sequence whose model has attention.
[[nodiscard]] inline KvCache& kv_cache_of(SequenceState& state) noexcept { return state.find<KvState>()->cache(); }

inline void KvState::save(StateSink sink) const {
  std::shared_ptr<std::byte> scratch;
  for (std::int64_t page = 0; page < cache_.page_count(); ++page) sink(cache_.read_page(page, scratch));
}

inline void KvState::restore(std::int64_t tokens, StateSource in) {
  KvCache restored = cache_;
  restored.truncate(0);
  // Page by page: memory is sized by what was saved, not by what is said of it, and may hold less than all of it.
  for (std::int64_t first = 0; first < tokens; first += page_tokens) {
    const std::span<const std::byte> saved = in(static_cast<std::uint64_t>(cache_.page_bytes()), "pages");
    restored.extend(std::min<std::int64_t>(page_tokens, tokens - first));
    std::memcpy(restored.page(restored.page_count() - 1).data(), saved.data(), saved.size());
  }
  cache_ = std::move(restored);
}

}  // namespace bantam::inline v0::nn
