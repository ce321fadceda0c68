// From shares to deviations of a normal distribution, and back.
#include "model/gate_sparsity.hpp"

#include <cmath>
#include <limits>
#include <numbers>

#include "bantam/core/error.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/io/gguf_writer.hpp"
#include "model/config_json.hpp"
#include "text/json.hpp"

namespace bantam::inline v0::detail {

namespace {

constexpr std::string_view gguf_key = "activation_sparsity_scale";

/// The share of a normal distribution that is below z deviations above its mean.
double share_below(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

/// The inverse of that, of a share above 0 and below 1.
double deviations_of(double share) {
  double low = -9, high = 9;
  for (int i = 0; i < 64; ++i) {
    const double middle = (low + high) / 2;
    (share_below(middle) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

void set_share(double share, const std::string& place, LayerSpec& spec) {
  if (!(share >= 0 && share < 1)) fail(Errc::corrupt, place, ": expected a share from 0 to below 1, found ", share);
  spec.gate_cutoff = share > 0 ? std::optional(static_cast<float>(deviations_of(share))) : std::nullopt;
}

/// What transformers' class takes where a config does not say: of deep models the first ten layers.
void set_usual(ModelConfig& c) {
  for (std::int64_t i = 0; i < c.layers; ++i) set_share(c.layers > 10 && i < 10 ? 0.95 : 0, "", c.specs[static_cast<std::size_t>(i)]);
}

}  // namespace

void read_gate_sparsity(const Json& json, const std::string& place, ModelConfig& c) {
  const std::string_view key = c.arch->sparsity_key;
  if (key.empty()) return;
  const std::vector<double> shares = list_at(json, key, place);
  const std::optional<double> one = shares.empty() ? number_at(json, key, place) : std::nullopt;
  if (shares.empty() && !one) return set_usual(c);
  if (!one && std::ssize(shares) != c.layers) fail(Errc::corrupt, place, ": ", key, ": expected one number or ", c.layers, ", found ", shares.size());
  for (std::size_t i = 0; i < c.specs.size(); ++i) set_share(one ? *one : shares[i], message(place, ": ", key, one ? std::string() : message("[", i, "]")), c.specs[i]);
}

void write_gate_sparsity(const ModelConfig& c, Json& json) {
  if (c.arch->sparsity_key.empty()) return;
  Json& shares = json[c.arch->sparsity_key] = Json::array();
  // Of the float that containers carry, as few digits as say it: 0.95.
  const auto share = [](float cutoff) { return std::round(share_below(static_cast<double>(cutoff)) * 1e6) / 1e6; };
  for (const LayerSpec& spec : c.specs) {
    const double rounded = spec.gate_cutoff ? share(*spec.gate_cutoff) : 0;
    const bool is_exact = !spec.gate_cutoff || (rounded > 0 && rounded < 1 && std::fabs(deviations_of(rounded) - static_cast<double>(*spec.gate_cutoff)) < 1e-6);
    shares.push_back(is_exact ? rounded : share_below(static_cast<double>(*spec.gate_cutoff)));
  }
}

void read_gate_sparsity(const GgufFile& file, const std::string& prefix, ModelConfig& c) {
  if (c.arch->sparsity_key.empty()) return;
  const std::string key = message(prefix, gguf_key);
  const std::vector<double>* const deviations = file.numbers(key);
  if (deviations == nullptr) return set_usual(c);
  if (std::ssize(*deviations) != c.layers) fail(Errc::corrupt, file.path().string(), ": ", key, ": expected ", c.layers, " numbers, found ", deviations->size());
  for (std::size_t i = 0; i < c.specs.size(); ++i) {
    const double z = (*deviations)[i];
    if (!(z < 9)) fail(Errc::corrupt, file.path().string(), ": ", key, "[", i, "]: expected less than 9 deviations, found ", z);
    c.specs[i].gate_cutoff = z > -9 ? std::optional(static_cast<float>(z)) : std::nullopt;
  }
}

void write_gate_sparsity(const ModelConfig& c, const std::string& prefix, GgufWriter& file) {
  if (c.arch->sparsity_key.empty()) return;
  std::vector<float> deviations;
  for (const LayerSpec& spec : c.specs) deviations.push_back(spec.gate_cutoff.value_or(-std::numeric_limits<float>::infinity()));
  file.key(message(prefix, gguf_key), std::span<const float>(deviations));
}

}  // namespace bantam::inline v0::detail
