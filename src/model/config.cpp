// The part of a checked ModelConfig that config.json and GGUF metadata share.
#include "model/config_source.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"

namespace bantam::inline v0::detail {

namespace {

double require_number(const Source& source, std::string_view field) {
  const std::optional<double> value = source.number(field);
  if (!value) fail(Errc::corrupt, source.place, ": ", source.key(field), ": expected a number, found nothing");
  return *value;
}

std::int64_t extent_of(const Source& source, std::string_view field, double value) {
  if (!(value >= 1) || value > static_cast<double>(largest_extent) || value != std::floor(value)) {
    fail(Errc::corrupt, source.place, ": ", source.key(field), ": expected a whole number from 1 to ", largest_extent, ", found ", value);
  }
  return static_cast<std::int64_t>(value);
}

/// One number for all layers, or one for each.
std::vector<std::int64_t> extents_of(const Source& source, std::string_view field, std::int64_t layers) {
  std::vector<std::int64_t> extents;
  for (const double value : source.list(field)) extents.push_back(extent_of(source, field, value));
  if (extents.empty()) return {require_extent(source, field)};
  if (static_cast<std::int64_t>(extents.size()) != layers) {
    fail(Errc::corrupt, source.place, ": ", source.key(field), ": expected one number or ", layers, ", found ", extents.size());
  }
  return extents;
}

/// Heads, key-value heads and FFN widths, of all layers alike or of each.
void read_shapes(const Source& source, ModelConfig& c) {
  const std::vector<std::int64_t> heads = extents_of(source, "heads", c.layers);
  const bool grouped = source.number("kv_heads") || !source.list("kv_heads").empty();
  const std::vector<std::int64_t> kv_heads = grouped ? extents_of(source, "kv_heads", c.layers) : heads;
  const std::vector<std::int64_t> ffn = extents_of(source, "ffn", c.layers);
  const auto at = [](const std::vector<std::int64_t>& list, std::int64_t i) { return list[list.size() == 1 ? 0 : static_cast<std::size_t>(i)]; };
  c.heads = heads[0];
  c.kv_heads = kv_heads[0];
  std::vector<LayerSpec> layers;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::int64_t h = at(heads, i), kv = at(kv_heads, i);
    if (kv > h || h % kv != 0) {
      fail(Errc::corrupt, source.place, ": ", source.key("kv_heads"), ": expected a divisor of the ", h, " heads, found ", kv);
    }
    if (h / kv != c.heads / c.kv_heads) {
      fail(Errc::unsupported, source.place, ": ", source.key("kv_heads"), "[", i, "]: expected ", c.heads / c.kv_heads,
           " heads for each, as in layer 0, found ", h / kv);
    }
    layers.push_back({.kv_heads = kv, .ffn = at(ffn, i)});
  }
  c.set_layers(std::move(layers));
}

double positive_or(const Source& source, std::string_view field, double otherwise) {
  const double value = source.number(field).value_or(otherwise);
  if (!(value > 0) || !std::isfinite(value)) {
    fail(Errc::corrupt, source.place, ": ", source.key(field), ": expected a number above 0, found ", value);
  }
  return value;
}

}  // namespace

std::int64_t require_extent(const Source& source, std::string_view field) {
  return extent_of(source, field, require_number(source, field));
}

std::int64_t extent_or(const Source& source, std::string_view field, std::int64_t otherwise) {
  const std::optional<double> value = source.number(field);
  return value ? extent_of(source, field, *value) : otherwise;
}

ModelConfig read_sizes(const ArchSpec& arch, const Source& source) {
  ModelConfig c;
  c.arch = &arch;
  c.dim = require_extent(source, "dim");
  c.layers = require_extent(source, "layers");
  if (c.layers > 100'000) fail(Errc::corrupt, source.place, ": ", source.key("layers"), ": expected at most 100000, found ", c.layers);
  read_shapes(source, c);
  const std::optional<double> head_dim = source.number("head_dim");
  if (!head_dim && c.dim % c.heads != 0) {
    fail(Errc::corrupt, source.place, ": ", source.key("dim"), ": expected a multiple of the ", c.heads, " heads, found ", c.dim);
  }
  c.head_dim = head_dim ? extent_of(source, "head_dim", *head_dim) : c.dim / c.heads;
  if (c.head_dim % 2 != 0 || c.head_dim > 4096) {
    fail(Errc::corrupt, source.place, ": ", source.key("head_dim"), ": expected an even size up to 4096, found ", c.head_dim);
  }
  if (c.heads * c.head_dim > largest_extent) {
    fail(Errc::corrupt, source.place, ": ", source.key("heads"), ": expected at most ", largest_extent, " rows of q, found ", c.heads, " heads of ", c.head_dim);
  }
  c.context = extent_or(source, "context", 2048);
  c.norm_eps = positive_or(source, "norm_eps", arch.default_norm_eps);
  c.rope.base = positive_or(source, "rope_base", arch.default_rope_base);
  c.rope.dim = extent_or(source, "rope_dim", c.head_dim);
  if (c.rope.dim > c.head_dim || c.rope.dim % 2 != 0) {
    fail(Errc::corrupt, source.place, ": ", source.key("rope_dim"), ": expected an even size up to the head's ", c.head_dim, ", found ", c.rope.dim);
  }
  c.rope.original_context = c.context;
  return c;
}

void check_rope(const nn::RopeOptions& rope, const std::string& place) {
  if (rope.scaling == nn::RopeScaling::yarn && !(rope.base > 1 && rope.beta_slow > 0 && rope.beta_fast > 0)) {
    fail(Errc::corrupt, place, ": rope: yarn expects a base above 1 and betas above 0, found ", rope.base, ", ", rope.beta_fast, " and ", rope.beta_slow);
  }
  if (!(rope.attention_factor >= 0) || !std::isfinite(rope.attention_factor)) {
    fail(Errc::corrupt, place, ": rope: expected an attention factor of at least 0, found ", rope.attention_factor);
  }
  for (const float divisor : rope.divisors) {
    if (!(divisor > 0) || !std::isfinite(divisor)) fail(Errc::corrupt, place, ": rope_divisors: expected numbers above 0, found ", divisor);
  }
}

}  // namespace bantam::inline v0::detail

namespace bantam::inline v0 {

bool ModelConfig::is_uniform() const noexcept {
  return std::ranges::all_of(specs, [&](const LayerSpec& spec) { return spec.kv_heads == specs[0].kv_heads && spec.ffn == specs[0].ffn; });
}

void ModelConfig::set_layers(std::vector<LayerSpec> of_layers) {
  BANTAM_ASSERT(!of_layers.empty());
  const std::int64_t group = heads / kv_heads;
  const auto most = [&](std::int64_t LayerSpec::* size) { return (*std::ranges::max_element(of_layers, {}, size)).*size; };
  kv_heads = most(&LayerSpec::kv_heads);
  heads = kv_heads * group;
  ffn = most(&LayerSpec::ffn);
  window = most(&LayerSpec::window);
  layers = static_cast<std::int64_t>(of_layers.size());
  specs = std::move(of_layers);
}

nn::KvShape ModelConfig::kv_shape() const {
  nn::KvShape shape{layers, kv_heads, head_dim, {}};
  const bool alike = std::ranges::all_of(specs, [&](const LayerSpec& spec) { return spec.kv_heads == kv_heads; });
  for (const LayerSpec& spec : specs) {
    if (!alike) shape.kv_heads_of.push_back(spec.kv_heads);
  }
  return shape;
}

}  // namespace bantam::inline v0
