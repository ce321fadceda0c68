// GGUF metadata to a checked ModelConfig.
#include "bantam/model/config.hpp"

#include <cmath>

#include "bantam/core/error.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/model/archs.hpp"
#include "model/config_source.hpp"

namespace bantam::inline v0 {

ModelConfig read_gguf_config(const GgufFile& file) {
  const std::string place = file.path().string();
  const std::string* name = file.text("general.architecture");
  if (name == nullptr) fail(Errc::corrupt, place, ": general.architecture: expected the name of an architecture, found nothing");
  const ArchSpec* arch = nullptr;
  std::string names;
  for (const ArchSpec* candidate : architectures) {
    names += message(names.empty() ? "" : ", ", candidate->name);
    if (candidate->name == *name) arch = candidate;
  }
  if (arch == nullptr) {
    fail(Errc::unsupported, place, ": general.architecture: expected one of ", names, ", found ", printable(*name));
  }
  const auto key_of = [&](std::string_view field) {
    for (const ConfigKey& key : arch->config) {
      if (key.field == field) return message(*name, ".", key.gguf);
    }
    return message(*name, ".", field);
  };
  const auto list_of = [&](std::string_view field) -> const std::vector<std::int64_t>* {
    const GgufValue* value = file.value(key_of(field));
    return value != nullptr ? std::get_if<std::vector<std::int64_t>>(value) : nullptr;
  };
  const detail::Source source{
      place,
      [&](std::string_view field) -> std::optional<double> {
        const auto* list = list_of(field);
        if (list == nullptr) return file.number(key_of(field));
        // Some writers give one number a layer; equal numbers mean the same.
        const std::int64_t layers = file.integer(key_of("layers")).value_or(0);
        if (static_cast<std::int64_t>(list->size()) != layers) {
          fail(Errc::corrupt, place, ": ", key_of(field), ": expected one number or ", layers, ", found ", list->size());
        }
        for (const std::int64_t entry : *list) {
          if (entry != list->front() && field != "heads" && field != "kv_heads" && field != "ffn") {
            fail(Errc::unsupported, place, ": ", key_of(field), ": expected one number for all layers, found several");
          }
        }
        return list->empty() ? std::nullopt : std::optional(static_cast<double>(list->front()));
      },
      [&](std::string_view field) {
        const auto* list = list_of(field);
        return list != nullptr ? std::vector<double>(list->begin(), list->end()) : std::vector<double>();
      },
      key_of};
  ModelConfig c = detail::read_sizes(*arch, source);
  if (source.number("window").value_or(0) != 0) {
    const std::int64_t window = detail::require_extent(source, "window");
    for (LayerSpec& spec : c.specs) spec.window = window;
    c.set_layers(std::move(c.specs));
  }
  if (const auto experts = file.number(message(*name, ".expert_count")); experts && *experts != 0) {
    fail(Errc::unsupported, place, ": ", *name, ".expert_count: mixtures of experts: not yet, found ", *experts);
  }
  if (const auto* tokens = file.texts("tokenizer.ggml.tokens")) c.vocab = static_cast<std::int64_t>(tokens->size());
  c.vocab = detail::extent_or(source, "vocab", c.vocab);
  const std::string prefix = message(*name, ".rope.scaling.");
  if (const std::string* type = file.text(prefix + "type"); type != nullptr && *type != "none") {
    if (*type == "linear") {
      c.rope.scaling = nn::RopeScaling::linear;
    } else if (*type == "yarn") {
      c.rope.scaling = nn::RopeScaling::yarn;
    } else {
      fail(Errc::unsupported, place, ": ", prefix, "type: expected none, linear or yarn, found ", printable(*type));
    }
    c.rope.factor = file.number(prefix + "factor").value_or(1);
    if (!(c.rope.factor >= 1) || !std::isfinite(c.rope.factor)) {
      fail(Errc::corrupt, place, ": ", prefix, "factor: expected at least 1, found ", c.rope.factor);
    }
    const auto positive = [&](std::string_view key, double otherwise) {
      const double value = file.number(prefix + std::string(key)).value_or(otherwise);
      if (!(value > 0) || !std::isfinite(value)) fail(Errc::corrupt, place, ": ", prefix, key, ": expected a number above 0, found ", value);
      return value;
    };
    const double original = positive("original_context_length", static_cast<double>(c.context));
    if (!(original >= 1) || original > static_cast<double>(detail::largest_extent)) {
      fail(Errc::corrupt, place, ": ", prefix, "original_context_length: expected 1 to ", detail::largest_extent, ", found ", original);
    }
    c.rope.original_context = static_cast<std::int64_t>(original);
    if (c.rope.scaling == nn::RopeScaling::yarn) {
      c.rope.beta_fast = positive("yarn_beta_fast", c.rope.beta_fast);
      c.rope.beta_slow = positive("yarn_beta_slow", c.rope.beta_slow);
      // Theirs multiplies the usual factor; ours, as Hugging Face's, stands for it.
      if (file.value(prefix + "attn_factor") != nullptr) c.rope.attention_factor = positive("attn_factor", 1) * (0.1 * std::log(c.rope.factor) + 1);
    }
  }
  detail::check_rope(c.rope, place);
  return c;
}

}  // namespace bantam::inline v0
