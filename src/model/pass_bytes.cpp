// What a pass of tokens takes: the widths of the buffers of each block.
#include "bantam/model/pass_bytes.hpp"

#include <algorithm>

#include "bantam/core/memory.hpp"
#include "bantam/model/forward.hpp"
#include "bantam/nn/attention.hpp"
#include "bantam/nn/blocks/indexer.hpp"
#include "make_mixer.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::int64_t plain = sizeof(float);

/// A row of nn::RowBuffer.
std::int64_t floats(std::int64_t columns) noexcept { return columns == 0 ? 0 : nn::RowBuffer::stride_of(columns) * plain; }

/// A head's numbers as caches have them.
std::int64_t padded(std::int64_t dim) noexcept { return round_up<std::int64_t>(dim, 16); }

struct Room : PassRoom {
  /// A row of nn::Activations.
  [[nodiscard]] std::int64_t rounded(std::int64_t columns) const noexcept { return columns == 0 ? 0 : nn::Activations::row_bytes(columns, forms, has_orders); }
  [[nodiscard]] PassBytes scratch(const nn::AttentionShape& shape) const noexcept { return {.fixed = nn::Attention::bytes(shape, context, workers)}; }
};

PassBytes operator+(const PassBytes& a, const PassBytes& b) noexcept { return {a.row + b.row, a.fixed + b.fixed}; }

PassBytes indexer_bytes(const ModelConfig& c, const Room& room) noexcept {
  if (c.index.used == 0) return {};
  const std::int64_t pages = div_up<std::int64_t>(room.context, page_tokens), word = sizeof(std::uint64_t);
  return {.row = floats(c.index.dim) + floats(c.index.heads * c.index.dim) + floats(c.index.heads * padded(c.index.dim)) + floats(c.index.heads) + c.rope.dim * plain + pages * word,
          .fixed = plain * std::max(nn::Indexer::most_scores, pages * page_tokens) + room.workers * (room.context / c.index.block * word + page_tokens * padded(c.index.dim) * plain)};
}

PassBytes attention_bytes(const ModelConfig& c, std::int64_t i, const Room& room) noexcept {
  const LayerSpec& spec = c.layer(i);
  std::int64_t kv_heads = 1;
  for (std::int64_t j = 0; j < c.layers; ++j) {
    if (c.attends_alike(i, j)) kv_heads = std::max(kv_heads, c.kv_heads_of(j));
  }
  const std::int64_t heads = kv_heads * c.group_of(spec), key = c.head_dim_of(spec), value = c.value_dim_of(spec);
  const nn::OutputGate gate = c.arch->output_gate;
  std::int64_t gates = 0;
  if (gate == nn::OutputGate::own) gates = floats(heads * value);
  if (nn::is_of_heads(gate)) gates = floats(heads);
  if (gate == nn::OutputGate::beside_queries) gates = floats(2 * heads * key);
  const std::int64_t angles = 2 * key * plain;  // of two ropes
  const std::int64_t row = floats(heads * key) + floats(kv_heads * key) + floats(kv_heads * value) + room.rounded(heads * value) + gates + angles;
  return PassBytes{.row = row} + room.scratch({.heads = heads, .kv_heads = kv_heads, .head_dim = key, .value_dim = value, .sparse = c.index.used > 0}) + indexer_bytes(c, room);
}

/// Absorbed queries are as wide as the latent vector, for each head.
PassBytes latent_bytes(const ModelConfig& c, const Room& room) noexcept {
  const std::int64_t key = c.rope.dim + c.kv_rank;
  const std::int64_t of_heads = floats(c.heads * c.head_dim) + c.heads * room.rounded(c.head_dim - c.rope.dim) + floats(c.heads * key) + floats(c.heads * c.kv_rank) + c.heads * room.rounded(c.kv_rank) +
                                room.rounded(c.heads * c.value_dim);
  const std::int64_t row = room.rounded(c.q_rank) + floats(c.heads) + floats(key) + of_heads + c.rope.dim * plain;
  return PassBytes{.row = row} + room.scratch({.heads = c.heads, .kv_heads = 1, .head_dim = key, .value_dim = c.kv_rank, .sparse = c.index.used > 0}) + indexer_bytes(c, room);
}

PassBytes state_space_bytes(const nn::RecurrentLayer& r, const Room& room) noexcept {
  const std::int64_t inner = r.value_heads * r.value_dim;
  return {.row = floats(inner + r.channels + r.value_heads) + 2 * floats(r.channels) + 2 * floats(inner) + floats(r.value_heads) + room.rounded(inner)};
}

/// The block of a layer's first half.
PassBytes mixer_bytes(const ModelConfig& c, std::int64_t i, const Room& room) noexcept {
  const nn::RecurrentLayer& r = c.recurrent;
  const std::int64_t keys = r.key_heads * r.key_dim, values = r.value_heads * r.value_dim;
  switch (c.mixer_of(i)) {
    case MixerKind::attention: return attention_bytes(c, i, room);
    case MixerKind::latent_attention: return latent_bytes(c, room);
    case MixerKind::gated_delta: return {.row = 2 * floats(r.channels) + 2 * floats(r.value_heads) + 2 * floats(values) + room.rounded(values)};
    case MixerKind::channel_delta: return {.row = 2 * floats(3 * keys) + 3 * floats(keys) + 2 * room.rounded(r.key_dim) + floats(r.key_heads) + room.rounded(keys)};
    case MixerKind::state_space: return state_space_bytes(r, room);
    case MixerKind::attention_beside_space: return attention_bytes(c, i, room) + state_space_bytes(r, room) + PassBytes{.row = floats(c.dim)};
    case MixerKind::short_convolution: return {.row = floats(3 * r.channels) + floats(r.channels) + room.rounded(r.channels)};
    case MixerKind::none: break;
  }
  return {};
}

PassBytes experts_bytes(const ModelConfig& c, const Room& room) noexcept {
  if (!c.has_experts()) return {};
  std::int64_t ffn = 0, experts = 0;
  for (const LayerSpec& spec : c.specs) ffn = std::max(ffn, spec.expert_ffn), experts = std::max(experts, spec.experts);
  const std::int64_t logits = floats(experts), inner = c.expert_dim(), visit = sizeof(nn::RoutedExpert) + 64;
  // Rows of experts that have sixteen tokens begin at multiples of 16.
  if (c.arch->causal) experts = std::min(experts, Forward::largest_chunk * c.router.used / 16);
  // Of a token's visit to an expert.
  const std::int64_t row = room.rounded(inner) + room.rounded(ffn) + floats(ffn) + floats(inner) + visit;
  PassBytes bytes{.row = c.router.used * row + logits, .fixed = 15 * experts * row};
  if (c.expert_latent > 0) bytes.row += room.rounded(c.dim) + floats(inner) + room.rounded(inner) + floats(c.dim) + room.rounded(ffn) + floats(ffn) + 2 * room.rounded(inner);
  return bytes;
}

/// Several residual streams, embeddings of other things than tokens, and the branch beside attention.
std::int64_t streams_row(const ModelConfig& c, const Room& room) noexcept {
  const std::int64_t all = c.streams * c.dim;
  std::int64_t row = 0;
  if (c.alternates_streams()) row += floats(all) + (c.streams - 1) * room.rounded(c.dim) + floats((c.streams - 1) * c.dim);
  if (c.connects_streams()) row += 2 * floats(all) + room.rounded(all) + room.rounded(c.stream_rank) + floats(c.streams);
  if (c.ngrams.exist()) row += 3 * floats(all) + room.rounded(c.ngrams.all_width()) + floats(c.dim) + c.ngrams.all_heads() * (c.ngrams.width + 2) * plain;
  if (c.per_layer_dim > 0) row += room.rounded(c.per_layer_dim) + 2 * floats(c.layers * c.per_layer_dim);
  if (c.laurel_rank > 0) row += room.rounded(c.laurel_rank);
  return row;
}

}  // namespace

PassBytes pass_bytes(const ModelConfig& c, const PassRoom& asked) {
  const Room room{asked};
  constexpr std::int64_t logits = 32;  // of so many tokens, of which as many rows wait for the head
  std::int64_t ffn = c.ffn;
  for (const LayerSpec& spec : c.specs) ffn = std::max({ffn, spec.ffn, spec.expert_ffn});
  const bool has_two_branches = c.arch->parallel || c.laurel_rank > 0 || c.arch->find(Role::expert_norm) != nullptr;
  const bool routes_stream = c.arch->find(Role::router_scale) != nullptr || c.arch->routes_inputs;
  // The residual stream, what branches add to it, and what branches and routers read of it.
  PassBytes sum{.row = c.dim * plain + (has_two_branches ? 2 : 1) * floats(c.dim) + (routes_stream ? 2 : 1) * room.rounded(c.dim) + floats(ffn) + room.rounded(ffn) + streams_row(c, room), .fixed = logits * (c.vocab * plain + room.rounded(c.dim))};
  for (std::int64_t i = 0; i < c.layers; ++i) {
    if (first_like(c, i) == i) sum = sum + mixer_bytes(c, i, room);
  }
  sum = sum + experts_bytes(c, room);
  if (c.has_source()) {
    const std::int64_t width = c.heads * c.head_dim;
    sum = sum + PassBytes{.row = 3 * floats(width) + room.rounded(width) + room.rounded(c.dim)} + room.scratch({.heads = c.heads, .kv_heads = c.heads, .head_dim = c.head_dim, .value_dim = c.head_dim});
  }
  // What adapters add to six products side by side, to the two of each of a token's experts, and to each head's, where it has matrices of its own.
  sum.row += (6 + 2 * c.router.used + (c.is_latent() ? c.heads : 0)) * room.ranks * plain;
  return sum;
}

}  // namespace bantam::inline v0
