// Rotary positions in config.json.
#include "model/config_rope.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"
#include "model/config_json.hpp"
#include "text/json.hpp"

namespace bantam::inline v0::detail {

namespace {

/// Divisors of frequencies, one a rotated pair.
std::vector<float> divisors_at(const Json& json, std::string_view key, const std::string& place, const ModelConfig& c) {
  const Json& list = need(json, key, place);
  if (!list.is_array() || !std::ranges::all_of(list, [](const Json& value) { return value.is_number(); })) {
    fail(Errc::corrupt, place, ": ", key, ": expected numbers, found ", list.type_name());
  }
  if (static_cast<std::int64_t>(list.size()) != c.rope.dim / 2) fail(Errc::corrupt, place, ": ", key, ": expected ", c.rope.dim / 2, " numbers, found ", list.size());
  return list.get<std::vector<float>>();
}

/// Phi's (arXiv:2402.13753). `c` has the original context, where the file says it outside; its own is the longer one.
void read_longrope(const Json& json, const std::string& place, ModelConfig& c) {
  nn::RopeOptions& rope = c.rope;
  rope.scaling = nn::RopeScaling::longrope;
  rope.divisors = divisors_at(json, "short_factor", place, c);
  rope.long_divisors = divisors_at(json, "long_factor", place, c);
  if (const auto original = number_at(json, "original_max_position_embeddings", place)) {
    if (!(*original >= 2) || *original > static_cast<double>(detail::largest_extent)) {
      fail(Errc::corrupt, place, ": original_max_position_embeddings: expected at least 2, found ", *original);
    }
    rope.original_context = static_cast<std::int64_t>(*original);
  }
  const double factor = static_cast<double>(c.context) / static_cast<double>(rope.original_context);
  const double usual = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(rope.original_context)));
  rope.attention_factor = number_at(json, "attention_factor", place).value_or(usual);
  // Phi-3.5-MoE's, in the place of the usual one.
  const auto near = number_at(json, "short_mscale", place), far = number_at(json, "long_mscale", place);
  if (!near && !far) return;
  if (near != far) fail(Errc::unsupported, place, ": long_mscale: expected that of short_mscale, found another");
  rope.attention_factor = *far;
}

void read_rope_scaling(const Json& json, const std::string& file, std::string_view name, ModelConfig& c) {
  const std::string place = message(file, ": ", name);
  parse_object(json, place);
  nn::RopeOptions& rope = c.rope;
  const auto required = [&](std::string_view key) {
    const std::optional<double> value = number_at(json, key, place);
    if (!value) fail(Errc::corrupt, place, ": ", key, ": expected a number, found nothing");
    return *value;
  };
  const std::string old_type = text_at(json, "type", place, "");
  const std::string type = text_at(json, "rope_type", place, old_type);
  if (!old_type.empty() && type != old_type) {
    fail(Errc::corrupt, place, ": expected type and rope_type to agree, found ", printable(old_type), " and ", printable(type));
  }
  // Of images a token has three positions (mrope); of a text they are the same.
  if (type.empty() || type == "default" || type == "none" || type == "mrope") return;
  if (type == "linear") {
    rope.scaling = nn::RopeScaling::linear;
  } else if (const auto alpha = number_at(json, "alpha", place); type == "dynamic" && alpha) {
    // Hunyuan's: another base from the beginning on.
    if (!(*alpha > 0) || !std::isfinite(*alpha)) fail(Errc::corrupt, place, ": alpha: expected a number above 0, found ", *alpha);
    const auto dim = static_cast<double>(rope.dim);
    rope.base *= std::pow(*alpha, dim / std::max(1.0, dim - 2));
    return;
  } else if (type == "dynamic") {
    rope.scaling = nn::RopeScaling::dynamic;
  } else if (type == "llama3") {
    rope.scaling = nn::RopeScaling::llama3;
    rope.low_freq_factor = required("low_freq_factor");
    rope.high_freq_factor = required("high_freq_factor");
    if (!(rope.high_freq_factor > rope.low_freq_factor) || !(rope.low_freq_factor > 0)) {
      fail(Errc::corrupt, place, ": expected 0 < low_freq_factor < high_freq_factor, found ", rope.low_freq_factor, " and ", rope.high_freq_factor);
    }
    required("original_max_position_embeddings");
  } else if (type == "yarn") {
    rope.scaling = nn::RopeScaling::yarn;
    rope.beta_fast = number_at(json, "beta_fast", place).value_or(32);
    rope.beta_slow = number_at(json, "beta_slow", place).value_or(1);
    rope.truncate = flag_at(json, "truncate", place, true);
  } else if (type == "longrope" || type == "su") {
    return read_longrope(json, place, c);
  } else {
    fail(Errc::unsupported, place, ": expected linear, dynamic, llama3, yarn or longrope, found ", printable(type));
  }
  rope.factor = required("factor");
  if (!(rope.factor >= 1) || !std::isfinite(rope.factor)) {
    fail(Errc::corrupt, place, ": factor: expected at least 1, found ", rope.factor);
  }
  if (const auto original = number_at(json, "original_max_position_embeddings", place)) {
    if (!(*original >= 1) || *original > static_cast<double>(detail::largest_extent)) {
      fail(Errc::corrupt, place, ": original_max_position_embeddings: expected at least 1, found ", *original);
    }
    rope.original_context = static_cast<std::int64_t>(*original);
  }
  if (rope.scaling == nn::RopeScaling::yarn) {
    // DeepSeek's pair of scales; transformers' _compute_yarn_parameters.
    const auto mscale = [&](double m) { return rope.factor <= 1 ? 1.0 : 0.1 * m * std::log(rope.factor) + 1; };
    const double a = number_at(json, "mscale", place).value_or(0);
    const double b = number_at(json, "mscale_all_dim", place).value_or(0);
    rope.attention_factor = number_at(json, "attention_factor", place).value_or(a > 0 && b > 0 ? mscale(a) / mscale(b) : 0);
    if (c.arch->latent && b > 0) rope.score_mscale = b;
  }
  if (const auto beta = number_at(json, "llama_4_scaling_beta", place)) {
    if (!(*beta >= 0) || !std::isfinite(*beta)) fail(Errc::corrupt, place, ": llama_4_scaling_beta: expected at least 0, found ", *beta);
    c.temperature = {.scale = *beta, .length = static_cast<double>(rope.original_context)};
  }
}

/// How many numbers of a head a part of it has.
std::int64_t rotated_part(double part, const std::string& place, const ModelConfig& c) {
  // Halves up: the factor is what writers made of a whole number.
  const double dim = std::floor(static_cast<double>(c.head_dim) * part + 0.5);
  if (!(part > 0 && part <= 1) || dim < 2 || static_cast<std::int64_t>(dim) % 2 != 0) {
    fail(Errc::corrupt, place, ": partial_rotary_factor: expected a part that leaves an even size of the head's ", c.head_dim, ", found ", part);
  }
  return static_cast<std::int64_t>(dim);
}

/// Of each head only a part may be rotated.
void read_rotated_part(const Json& json, const Json* rope_parameters, const std::string& place, ModelConfig& c) {
  std::optional<double> part;
  if (rope_parameters != nullptr) part = number_at(*rope_parameters, "partial_rotary_factor", place);
  for (const char* key : {"partial_rotary_factor", "rotary_pct", "rope_pct"}) {
    if (!part) part = number_at(json, key, place);
  }
  if (!part && c.arch->default_rope_part < 1) part = c.arch->default_rope_part;
  if (!part) return;
  c.rope.dim = rotated_part(*part, place, c);
}

/// Gemma 4's rope of layers without a window, over whole heads, of which some pairs turn.
void read_proportional(const Json* rope_parameters, const std::string& file, ModelConfig& c) {
  const std::string place = message(file, ": rope_parameters");
  const Json none = Json::object();
  const Json& json = rope_parameters != nullptr ? *rope_parameters : none;
  const std::string type = text_at(json, "rope_type", place, "proportional");
  const double part = number_at(json, "partial_rotary_factor", place).value_or(type == "default" ? 1 : 0.25), factor = number_at(json, "factor", place).value_or(1);
  if (type != "proportional" && !(type == "default" && part == 1)) fail(Errc::unsupported, place, ": rope_type: expected proportional, found ", printable(type));
  const double turned = std::floor(static_cast<double>(c.rope.dim) * part / 2 + 1e-9);
  if (!(part > 0 && part <= 1) || turned < 1) fail(Errc::corrupt, place, ": partial_rotary_factor: expected a part that turns some of the head's ", c.rope.dim / 2, " pairs, found ", part);
  if (!(factor > 0) || !std::isfinite(factor)) fail(Errc::corrupt, place, ": factor: expected a number above 0, found ", factor);
  c.rope.divisors = detail::proportional_divisors(c.rope.dim / 2, static_cast<std::int64_t>(turned), factor);
}

/// The same of layers with a window: all pairs turn.
void check_local_rope(const Json* parameters, const std::string& file) {
  const std::string place = message(file, ": rope_parameters: sliding_attention");
  if (parameters == nullptr || !parameters->is_object()) return;
  const std::string type = text_at(*parameters, "rope_type", place, "default");
  const double part = number_at(*parameters, "partial_rotary_factor", place).value_or(1);
  if (type != "default" || part != 1) fail(Errc::unsupported, place, ": expected rope_type default over whole heads, found ", printable(type), " over a part of ", part);
}

/// The layers that rope turns: SmolLM3's and Llama 4's list, or SmallThinker's.
void read_rotated_layers(const Json& json, const std::string& place, ModelConfig& c) {
  const std::vector<bool> turned = layout_at(json, c.arch->rope_layers_key, place, c.layers);
  for (std::size_t i = 0; i < turned.size(); ++i) {
    if (!turned[i]) c.specs[i].rope = nn::LayerRope::none;
    if (turned[i] && c.specs[i].rope == nn::LayerRope::none) c.specs[i].rope = nn::LayerRope::model;
  }
}

/// The base of each layer, 0 where rope does not turn it (Granite SWA). Two ropes are at hand, the second of which is never scaled.
void read_layer_bases(const Json& json, const std::string& place, ModelConfig& c) {
  const std::string_view key = c.arch->rope_bases_key;
  if (key.empty() || member(json, key) == nullptr) return;
  const std::vector<double> bases = list_at(json, key, place);
  if (std::ssize(bases) != c.layers) fail(Errc::corrupt, place, ": ", key, ": expected a base for each of ", c.layers, " layers, found ", bases.size());
  std::vector<double> different;
  for (std::size_t i = 0; i < bases.size(); ++i) {
    const double base = bases[i];
    if (!(base >= 0) || !std::isfinite(base)) fail(Errc::corrupt, place, ": ", key, "[", i, "]: expected a number of at least 0, found ", base);
    if (base > 0 && std::ranges::find(different, base) == different.end()) different.push_back(base);
    if (different.size() > 2) fail(Errc::unsupported, place, ": ", key, "[", i, "]: expected at most two bases, found a third, ", base);
    c.specs[i].rope = base == 0 ? nn::LayerRope::none : base == different[0] ? nn::LayerRope::model : nn::LayerRope::local;
  }
  if (different.empty()) return;
  c.rope.base = different[0];
  if (different.size() == 1) return;
  if (c.rope.scaling != nn::RopeScaling::none) fail(Errc::unsupported, place, ": ", key, ": expected one base where rope is scaled, found two");
  c.local_rope = nn::RopeOptions{.dim = c.rope.dim, .base = different[1], .pairs = c.rope.pairs};
}

}  // namespace

RopeParameters rope_parameters_of(const Json& json) {
  const Json* all = member(json, "rope_parameters");
  if (all == nullptr || !all->is_object()) return {};
  const Json* full = member(*all, "full_attention");
  if (full == nullptr) return {all, nullptr};
  return {full->is_object() ? full : nullptr, member(*all, "sliding_attention")};
}

void read_rope(const Json& json, const RopeParameters& parameters, const std::string& place, ModelConfig& c) {
  const ArchSpec& arch = *c.arch;
  if (!arch.latent && !arch.proportional_rope) read_rotated_part(json, parameters.model, place, c);
  if (const auto original = number_at(json, "original_max_position_embeddings", place); original && *original >= 2 && *original <= static_cast<double>(largest_extent)) {
    c.rope.original_context = static_cast<std::int64_t>(*original);
  }
  if (arch.proportional_rope) {
    check_local_rope(parameters.local, place);  // the other is read when heads are known
  } else if (parameters.model != nullptr) {
    read_rope_scaling(*parameters.model, place, "rope_parameters", c);
  } else if (const Json* scaling = member(json, "rope_scaling")) {
    read_rope_scaling(*scaling, place, "rope_scaling", c);
  }
  if (arch.latent && !flag_at(json, "rope_interleave", place, true)) fail(Errc::unsupported, place, ": rope_interleave: expected true, found false");
  read_shared_choices(json, place, c);
  check_index(c, place);
  const bool index_pairs = arch.index_pairs == nn::RopePairs::adjacent;
  if (flag_at(json, "indexer_rope_interleave", place, index_pairs) != index_pairs) fail(Errc::unsupported, place, ": indexer_rope_interleave: expected ", index_pairs, ", found ", !index_pairs);
  if (json.find("rope_divisors") != nullptr && !arch.proportional_rope) c.rope.divisors = divisors_at(json, "rope_divisors", place, c);
}

void read_layer_ropes(const Json& json, const RopeParameters& parameters, const Source& source, ModelConfig& c) {
  const ArchSpec& arch = *c.arch;
  const std::string& place = source.place;
  if (arch.proportional_rope) {
    read_proportional(parameters.model, place, c);
    if (json.find("rope_divisors") != nullptr) c.rope.divisors = divisors_at(json, "rope_divisors", place, c);
  }
  double local_base = source.number(Field::local_rope_base).value_or(0);
  // ModernBERT's way to say that there is one base.
  if (const Json* it = arch.full_layers_lead ? json.find(source.key(Field::local_rope_base)) : nullptr; it != nullptr && it->is_null()) local_base = c.rope.base;
  if (parameters.local != nullptr && parameters.local->is_object()) local_base = number_at(*parameters.local, "rope_theta", place).value_or(local_base);
  if (!(local_base >= 0) || !std::isfinite(local_base)) {
    fail(Errc::corrupt, place, ": ", source.key(Field::local_rope_base), ": expected a number above 0, found ", local_base);
  }
  std::int64_t local_dim = c.rope.dim;
  if (arch.find(Field::local_rope_dim) != nullptr && !arch.proportional_rope && parameters.local != nullptr && parameters.local->is_object()) {
    local_dim = rotated_part(number_at(*parameters.local, "partial_rotary_factor", place).value_or(1), place, c);
  }
  set_ropes(c, local_base, local_dim);
  read_rotated_layers(json, place, c);
  read_layer_bases(json, place, c);
}

nn::Temperature read_temperature(const Json& json, const std::string& place, nn::Temperature t) {
  // Some say it by a number.
  const Json* tuned = member(json, "attn_temperature_tuning");
  if (tuned != nullptr && (*tuned == Json(false) || *tuned == Json(0))) t.scale = 0;
  const double scale = number_at(json, "attn_scale", place).value_or(t.scale), length = number_at(json, "floor_scale", place).value_or(t.length);
  if (!(scale >= 0) || !std::isfinite(scale)) fail(Errc::corrupt, place, ": attn_scale: expected at least 0, found ", scale);
  if (!(length >= 1) || !std::isfinite(length)) fail(Errc::corrupt, place, ": floor_scale: expected at least 1, found ", length);
  if (t.scale > 0) t.scale = scale;
  t.length = length;
  return t;
}

}  // namespace bantam::inline v0::detail
