// What recurrent blocks remember of a sequence: matrices of fixed size, and the tokens since they were last brought up to date.
//
// A token's output must not depend on how a prompt was cut into passes, and chunked forms round differently from step by step. So
// chunks are cut at absolute positions, multiples of `chunk_tokens`: the state is that of the last such boundary, and what the tokens
// since then contribute is kept beside it, the tail. Whoever comes next reads both, alone or with others, in the same order.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "bantam/core/memory.hpp"
#include "bantam/nn/page_store.hpp"
#include "bantam/nn/sequence_state.hpp"

namespace bantam::inline v0::nn {

/// Sizes of a recurrent layer's state. A layer without heads keeps inputs of its convolution alone; one without channels is not recurrent.
struct RecurrentLayer {
  std::int64_t key_heads = 0, value_heads = 0;  ///< each key head goes with value_heads / key_heads value heads
  std::int64_t key_dim = 0, value_dim = 0;      ///< a value head's state is (key_dim, value_dim)
  std::int64_t channels = 0;                    ///< of the convolution's inputs
  std::int64_t taps = 1;                        ///< tokens that the convolution sees, or reaches over
  bool channel_decays = false;                  ///< a value head's decay is of each key channel
  bool operator==(const RecurrentLayer&) const = default;
};

/// States of all recurrent layers. Beside the last boundary some earlier ones are kept as checkpoints, closer together where they are
/// recent: truncate() goes back to any token of the last chunk and, but for its last token, of the one that the last pass of several
/// chunks began in, and else to the checkpoint before.
class RecurrentState final : public BlockState {
 public:
  /// Tokens of a chunk. The work for a token grows with it (half a chunk of dot products), that for a boundary falls.
  static constexpr std::int64_t chunk_tokens = 32;
  /// Checkpoints kept. A state of Qwen3.6-35B-A3B has 63 MB.
  static constexpr std::size_t most_checkpoints = 8;
  /// Tokens between those that go to a store, at least.
  static constexpr std::int64_t stored_distance = 256;

  /// Of the layers of a model; those without channels keep nothing.
  explicit RecurrentState(std::vector<RecurrentLayer> layers);

  /// One layer's part of a chunk.
  struct Part {
    float* states = nullptr;   ///< (value heads, key_dim, padded value_dim), at its beginning
    float* history = nullptr;  ///< (taps - 1, padded channels): the convolution's inputs before it
    float* keys = nullptr;     ///< (key heads, key_dim, chunk)
    float* updates = nullptr;  ///< (value heads, chunk, padded value_dim)
    float* decays = nullptr;   ///< (value heads, chunk): sums of log decays since the beginning; (value heads, key_dim, chunk) of each channel
    float* inputs = nullptr;   ///< (chunk, padded channels) of the convolution
  };
  /// A pass that extend() made room for finds its first token's chunk here, and the last one's, in which it begins a state anew where
  /// the two differ; what lies between is written to the last one, too.
  [[nodiscard]] Part first_part(std::int64_t layer, std::int64_t position) const noexcept { return part(layer, chunk_of(position)); }
  [[nodiscard]] Part last_part(std::int64_t layer) const noexcept { return part(layer, chunks_.back()); }
  [[nodiscard]] std::int64_t layers() const noexcept { return std::ssize(places_); }
  /// The first token of the last chunk.
  [[nodiscard]] std::int64_t boundary() const noexcept { return chunks_.back().first; }

  [[nodiscard]] std::int64_t tokens() const noexcept override { return tokens_; }
  void extend(std::int64_t count) override;
  void truncate(std::int64_t tokens) noexcept override;
  void keep_checkpoint() noexcept override { kept_ = chunks_.back().first; }
  [[nodiscard]] std::unique_ptr<BlockState> fork() const override { return std::make_unique<RecurrentState>(*this); }
  void save(StateSink sink) const override;
  void restore(std::int64_t tokens, StateSource in) override;
  [[nodiscard]] std::int64_t bytes() const noexcept override;
  [[nodiscard]] std::int64_t bytes_per_token() const noexcept override { return 0; }
  /// Of the states alone, without any checkpoint.
  [[nodiscard]] std::int64_t least_bytes() const noexcept { return (boundary_floats_ + tail_floats_) * static_cast<std::int64_t>(sizeof(float)); }
  /// With so many checkpoints in memory, the newest of which a pass goes on from. That of keep_checkpoint() has a tail, too, wherever it is.
  [[nodiscard]] std::int64_t bytes_with(std::int64_t checkpoints) const noexcept { return least_bytes() + 2 * tail_bytes() + checkpoints * boundary_bytes(); }
  /// From now on has this many checkpoints in memory, at least one: older ones go to `store`, which has pages of parts(). There they are farther
  /// apart: a state of 63 MB every 32 tokens would be more than it is worth. Copies do the same.
  void keep_within(std::int64_t checkpoints, std::shared_ptr<PageStore> store) noexcept {
    in_memory_ = std::max<std::int64_t>(1, checkpoints);
    store_ = std::move(store);
  }
  [[nodiscard]] std::vector<PagePart> parts() const { return {{0, boundary_bytes()}}; }
  [[nodiscard]] std::int64_t boundary_bytes() const noexcept { return boundary_floats_ * static_cast<std::int64_t>(sizeof(float)); }

 private:
  using Memory = std::shared_ptr<std::byte>;
  struct Chunk {
    std::int64_t first = 0;  ///< token
    Memory boundary;         ///< states and histories; null: they are in the store, or zeros that nobody has asked for yet
    Memory tail;             ///< the rest; null: nothing was written there, or it was let go
    PageStore::Page stored;  ///< a copy of the boundary, if there is one
  };
  /// Where a layer's parts are, in floats from the beginning of the memory that holds them.
  struct Place {
    std::int64_t states = 0, history = 0, keys = 0, updates = 0, decays = 0, inputs = 0;
  };

  static Memory floats(std::int64_t count) {
    Memory memory = allocate_storage(static_cast<std::size_t>(count) * sizeof(float));
    std::memset(memory.get(), 0, static_cast<std::size_t>(count) * sizeof(float));
    return memory;
  }
  [[nodiscard]] Part part(std::int64_t layer, const Chunk& chunk) const noexcept;
  [[nodiscard]] const Chunk& chunk_of(std::int64_t position) const noexcept {
    return *std::prev(std::ranges::upper_bound(chunks_, position, {}, &Chunk::first));
  }
  [[nodiscard]] std::int64_t tail_bytes() const noexcept { return tail_floats_ * static_cast<std::int64_t>(sizeof(float)); }
  [[nodiscard]] Memory boundary_of(const Chunk& chunk) const;
  void make_writable(Chunk& chunk) const;
  void spill() noexcept;
  void thin_out() noexcept;

  std::vector<Place> places_;  ///< of each layer
  std::int64_t boundary_floats_ = 0, tail_floats_ = 0;
  std::int64_t tokens_ = 0;
  std::vector<Chunk> chunks_{{}};  ///< checkpoints, and the last one: never empty
  std::shared_ptr<PageStore> store_;  ///< null: all of them are in memory
  std::int64_t in_memory_ = 0;        ///< checkpoints that are, else
  std::int64_t kept_ = -1;         ///< where the chunk of keep_checkpoint() begins; -1: none
};

inline RecurrentState::RecurrentState(std::vector<RecurrentLayer> layers) {
  for (const RecurrentLayer& l : layers) {
    const std::int64_t channels = round_up<std::int64_t>(l.channels, 16), values = round_up<std::int64_t>(l.value_dim, 16);
    Place& p = places_.emplace_back();
    const auto take = [](std::int64_t& total, std::int64_t count) { return std::exchange(total, total + round_up<std::int64_t>(count, 16)); };
    p.states = take(boundary_floats_, l.value_heads * l.key_dim * values);
    p.history = take(boundary_floats_, (l.taps - 1) * channels);
    p.keys = take(tail_floats_, l.key_heads * l.key_dim * chunk_tokens);
    p.updates = take(tail_floats_, l.value_heads * chunk_tokens * values);
    p.decays = take(tail_floats_, l.value_heads * (l.channel_decays ? l.key_dim : 1) * chunk_tokens);
    p.inputs = take(tail_floats_, chunk_tokens * channels);
  }
}

inline RecurrentState::Part RecurrentState::part(std::int64_t layer, const Chunk& chunk) const noexcept {
  const Place& p = places_[static_cast<std::size_t>(layer)];
  auto* boundary = reinterpret_cast<float*>(chunk.boundary.get());
  auto* tail = reinterpret_cast<float*>(chunk.tail.get());
  return {boundary + p.states, boundary + p.history, tail + p.keys, tail + p.updates, tail + p.decays, tail + p.inputs};
}

/// Wherever it is; zeros at the beginning of a sequence.
inline RecurrentState::Memory RecurrentState::boundary_of(const Chunk& chunk) const {
  if (chunk.boundary != nullptr) return chunk.boundary;
  if (chunk.stored == nullptr) return floats(boundary_floats_);
  Memory memory = allocate_storage(static_cast<std::size_t>(boundary_bytes()));
  store_->get(chunk.stored, memory.get());
  return memory;
}

/// Its tail is written by the next pass: nobody else may have it.
inline void RecurrentState::make_writable(Chunk& chunk) const {
  chunk.boundary = boundary_of(chunk);
  if (chunk.tail == nullptr) {
    chunk.tail = floats(tail_floats_);
  } else if (chunk.tail.use_count() > 1) {  // another state has it, too
    Memory copy = allocate_storage(static_cast<std::size_t>(tail_bytes()));
    std::memcpy(copy.get(), chunk.tail.get(), static_cast<std::size_t>(tail_bytes()));
    chunk.tail = std::move(copy);
  }
}

inline void RecurrentState::extend(std::int64_t count) {
  BANTAM_ASSERT(count >= 0);
  if (count == 0) return;
  make_writable(chunks_.back());
  const std::int64_t first = (tokens_ + count) / chunk_tokens * chunk_tokens;
  if (first > chunks_.back().first) {
    if (store_ != nullptr) spill();
    chunks_.push_back({first, floats(boundary_floats_), floats(tail_floats_), nullptr});
    thin_out();
  }
  tokens_ += count;
}

/// Before another chunk comes, checkpoints beyond those that may stay in memory go to the store. Those that are close behind another go for good, and
/// so do those that the store does not take: nothing is lost but the way back to them.
inline void RecurrentState::spill() noexcept {
  const auto put = [&](Chunk& chunk) {
    try {
      const std::byte* const boundary = chunk.boundary.get();
      chunk.stored = store_->put({&boundary, 1}).front();
    } catch (const std::exception&) {
    }
    return chunk.stored != nullptr;
  };
  for (std::size_t i = 0; std::ssize(chunks_) - static_cast<std::int64_t>(i) > in_memory_;) {
    Chunk& chunk = chunks_[i];
    const bool is_needed = chunk.first > 0 && chunk.stored == nullptr;
    const bool is_close = i > 0 && chunk.first - chunks_[i - 1].first < stored_distance && chunk.first != kept_;
    if (is_needed && (is_close || !put(chunk))) {
      chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    chunk.boundary = nullptr;
    ++i;
  }
}

/// Of too many checkpoints, lets go the one whose neighbors are closest to each other for how far back it is. Only the newest keeps
/// its tail, and that of keep_checkpoint(), which stays.
inline void RecurrentState::thin_out() noexcept {
  const std::size_t last = chunks_.size() - 1;
  for (std::size_t i = 0; i + 1 < last; ++i) {
    if (chunks_[i].first != kept_) chunks_[i].tail = nullptr;
  }
  if (last <= most_checkpoints) return;
  const auto gap = [&](std::size_t i) {
    const std::int64_t before = i == 0 ? 0 : chunks_[i - 1].first;
    return static_cast<double>(chunks_[i + 1].first - before) / static_cast<double>(chunks_[last].first - chunks_[i].first);
  };
  std::size_t closest = chunks_[0].first == kept_ ? 1 : 0;
  for (std::size_t i = 1; i + 1 < last; ++i) {
    if (chunks_[i].first != kept_ && gap(i) < gap(closest)) closest = i;
  }
  chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(closest));
}

inline void RecurrentState::truncate(std::int64_t tokens) noexcept {
  if (tokens >= tokens_) return;
  if (tokens < kept_) kept_ = -1;
  while (!chunks_.empty() && chunks_.back().first > tokens) chunks_.pop_back();
  if (chunks_.empty() || tokens == 0) {
    tokens_ = 0;
    chunks_.resize(1);  // there was room for it
    chunks_[0] = {};
    return;
  }
  const Chunk& last = chunks_.back();
  // A chunk that is full has its successor's state for what comes next, which went: its last token is read again.
  tokens_ = last.tail == nullptr ? last.first : std::min(tokens, last.first + chunk_tokens - 1);
}

inline void RecurrentState::save(StateSink sink) const {
  const Chunk& last = chunks_.back();
  const auto put = [&](const Memory& memory, std::int64_t count) { sink({memory.get(), static_cast<std::size_t>(count) * sizeof(float)}); };
  if (last.first > 0) put(boundary_of(last), boundary_floats_);
  if (tokens_ > last.first) put(last.tail, tail_floats_);
}

inline void RecurrentState::restore(std::int64_t tokens, StateSource in) {
  Chunk restored{tokens / chunk_tokens * chunk_tokens, nullptr, nullptr, nullptr};
  const auto get = [&](std::int64_t count, std::string_view what) {
    const std::span<const std::byte> saved = in(static_cast<std::uint64_t>(count) * sizeof(float), what);
    Memory memory = allocate_storage(saved.size());
    std::memcpy(memory.get(), saved.data(), saved.size());
    return memory;
  };
  if (restored.first > 0) restored.boundary = get(boundary_floats_, "recurrent states");
  if (tokens > restored.first) restored.tail = get(tail_floats_, "tokens since the recurrent states");
  chunks_.assign(1, std::move(restored));
  tokens_ = tokens;
}

inline std::int64_t RecurrentState::bytes() const noexcept {
  std::int64_t count = 0;
  for (const Chunk& chunk : chunks_) count += (chunk.boundary ? boundary_floats_ : 0) + (chunk.tail ? tail_floats_ : 0);
  return count * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace bantam::inline v0::nn
