// Layers without a window that have sizes of their own (MiMo-V2), and layers that read the keys and values of others (Gemma 4).
#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"
#include "model/config_source.hpp"

namespace bantam::inline v0::detail {

namespace {

/// What pairs that do not turn are divided by in GGUF files: less than a rounding error is left of any angle.
constexpr float no_turn = 1e30F;

void set_sizes(const Source& source, const FullLayers& said, std::int64_t head_dim, ModelConfig& c) {
  for (std::int64_t i = 0; i < c.layers; ++i) {
    LayerSpec& spec = c.specs[static_cast<std::size_t>(i)];
    if (spec.window > 0) continue;
    if (head_dim != c.head_dim) spec.head_dim = head_dim;
    spec.shares_values = said.shares_values(i);
    const std::int64_t heads = spec.kv_heads * spec.group;
    if (said.kv_heads == 0) continue;
    if (heads % said.kv_heads != 0) {
      fail(Errc::corrupt, source.place, ": ", source.key(Field::full_kv_heads), ": expected a divisor of the ", heads, " heads, found ", said.kv_heads);
    }
    spec.kv_heads = said.kv_heads;
    spec.group = heads / said.kv_heads;
  }
}

/// The last layers read what the last one of their kind before them keeps.
void share_keys(const Source& source, bool doubles_ffn, ModelConfig& c) {
  const std::int64_t shared = static_cast<std::int64_t>(source.number(Field::shared_layers).value_or(0)), first = c.layers - shared;
  for (std::int64_t i = first; i < c.layers; ++i) {
    LayerSpec& spec = c.specs[static_cast<std::size_t>(i)];
    std::int64_t from = first - 1;
    while (from >= 0 && (c.window_of(from) > 0) != (spec.window > 0)) --from;
    if (from < 0) {
      fail(Errc::corrupt, source.place, ": ", source.key(Field::shared_layers), ": layer ", i, ": expected a layer of its kind before the last ", shared, ", found none");
    }
    spec.kv_layer = from;
    spec.shares_values = false;
    if (doubles_ffn) spec.ffn *= 2;
  }
}

}  // namespace

void read_full_layers(const Source& source, const FullLayers& said, ModelConfig& c) {
  if (!c.arch->full_layers_differ() && !c.arch->shares_keys()) return;
  const bool heads_differ = c.arch->full_heads_differ();
  const std::int64_t head_dim = heads_differ ? require_extent(source, Field::full_head_dim) : c.head_dim;
  if (head_dim % 2 != 0 || head_dim > most_head_dim) {
    fail(Errc::corrupt, source.place, ": ", source.key(Field::full_head_dim), ": expected an even size up to ", most_head_dim, ", found ", head_dim);
  }
  if (c.heads * head_dim > largest_extent) {
    fail(Errc::corrupt, source.place, ": ", source.key(Field::heads), ": expected at most ", largest_extent, " rows of q, found ", c.heads, " heads of ", head_dim);
  }
  const double shared = source.number(Field::shared_layers).value_or(0);
  if (!(shared >= 0) || shared >= static_cast<double>(c.layers) || shared != std::floor(shared)) {
    fail(Errc::corrupt, source.place, ": ", source.key(Field::shared_layers), ": expected a whole number below the ", c.layers, " layers, found ", shared);
  }
  set_sizes(source, said, head_dim, c);
  share_keys(source, said.doubles_ffn, c);
  if (!heads_differ) return c.set_layers(std::move(c.specs));
  const bool any_full = std::ranges::any_of(c.specs, [](const LayerSpec& spec) { return spec.window == 0; });
  c.rope.dim = any_full ? head_dim : c.head_dim;
  for (const auto& [field, dim] : {std::pair{Field::rope_dim, head_dim}, {Field::local_rope_dim, c.head_dim}}) {
    if (const auto turned = source.number(field); turned && *turned != static_cast<double>(dim)) {
      fail(Errc::unsupported, source.place, ": ", source.key(field), ": expected the head's ", dim, ", found ", *turned);
    }
  }
  c.set_layers(std::move(c.specs));
}

std::vector<float> proportional_divisors(std::int64_t pairs, std::int64_t turned, double factor) {
  std::vector<float> divisors(static_cast<std::size_t>(pairs), no_turn);
  std::fill_n(divisors.begin(), std::min(turned, pairs), static_cast<float>(factor));
  return divisors;
}

std::optional<std::int64_t> proportional_pairs(const nn::RopeOptions& rope) {
  const auto turned = std::ranges::count(rope.divisors, 1.0F);
  if (turned == 0 || rope.divisors != proportional_divisors(rope.dim / 2, turned)) return {};
  return turned;
}

}  // namespace bantam::inline v0::detail
