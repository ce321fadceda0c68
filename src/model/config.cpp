// The part of a checked ModelConfig that config.json and GGUF metadata share.
#include "model/config_source.hpp"

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
  c.heads = require_extent(source, "heads");
  c.kv_heads = extent_or(source, "kv_heads", c.heads);
  if (c.kv_heads > c.heads || c.heads % c.kv_heads != 0) {
    fail(Errc::corrupt, source.place, ": ", source.key("kv_heads"), ": expected a divisor of the ", c.heads, " heads, found ", c.kv_heads);
  }
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
  c.ffn = require_extent(source, "ffn");
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
