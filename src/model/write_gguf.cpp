// A ModelConfig as GGUF metadata.
#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"
#include "bantam/io/gguf_writer.hpp"
#include "bantam/model/config.hpp"

namespace bantam::inline v0 {

namespace {

[[noreturn]] void no_words_for(std::string_view what) { fail(Errc::unsupported, "config: ", what, ": GGUF has no words for it"); }

void write_scaling(GgufWriter& file, const nn::RopeOptions& rope, const std::string& prefix) {
  using nn::RopeScaling;
  if (rope.scaling == RopeScaling::none || rope.scaling == RopeScaling::llama3) return;  // llama3: as rope_freqs.weight
  if (rope.scaling == RopeScaling::dynamic) no_words_for("dynamic rope scaling");
  file.key(prefix + "type", rope.scaling == RopeScaling::linear ? "linear" : "yarn");
  file.key(prefix + "factor", static_cast<float>(rope.factor));
  if (rope.original_context > 0) file.key(prefix + "original_context_length", static_cast<std::uint32_t>(rope.original_context));
  if (rope.scaling != RopeScaling::yarn) return;
  file.key(prefix + "yarn_beta_fast", static_cast<float>(rope.beta_fast));
  file.key(prefix + "yarn_beta_slow", static_cast<float>(rope.beta_slow));
  // Theirs multiplies the usual factor; ours, as Hugging Face's, stands for it.
  if (rope.attention_factor > 0) file.key(prefix + "attn_factor", static_cast<float>(rope.attention_factor / (0.1 * std::log(rope.factor) + 1)));
}

}  // namespace

void write_gguf_config(GgufWriter& file, const ModelConfig& c) {
  if (c.gate != ops::Gate::silu) no_words_for("an activation other than silu");
  const bool same_window = std::ranges::all_of(c.specs, [&](const LayerSpec& spec) { return spec.window == c.window; });
  if (!same_window) no_words_for("a sliding window of some layers");
  const std::string prefix = message(c.arch->name, ".");
  file.key("general.architecture", c.arch->name);
  file.key("general.quantization_version", std::uint32_t{2});
  const auto write = [&](std::string_view field, auto value) {
    for (const ConfigKey& key : c.arch->config) {
      if (key.field == field && !key.gguf.empty()) file.key(message(prefix, key.gguf), value);
    }
  };
  const auto size = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  write("dim", size(c.dim));
  write("layers", size(c.layers));
  write("heads", size(c.heads));
  write("kv_heads", size(c.kv_heads));
  write("head_dim", size(c.head_dim));
  file.key(prefix + "attention.value_length", size(c.head_dim));
  write("ffn", size(c.ffn));
  write("vocab", size(c.vocab));
  write("context", size(c.context));
  write("norm_eps", static_cast<float>(c.norm_eps));
  write("rope_base", static_cast<float>(c.rope.base));
  write("rope_dim", size(c.rope.dim));
  if (c.window > 0) write("window", size(c.window));
  write_scaling(file, c.rope, prefix + "rope.scaling.");
}

std::vector<float> gguf_rope_divisors(const ModelConfig& config) {
  if (config.rope.scaling != nn::RopeScaling::llama3) return config.rope.divisors;
  nn::RopeOptions plain = config.rope;
  plain.scaling = nn::RopeScaling::none;
  plain.divisors.clear();
  const nn::Rope unscaled(plain), scaled(config.rope);
  std::vector<float> divisors;
  for (std::size_t i = 0; i < unscaled.frequencies().size(); ++i) {
    divisors.push_back(static_cast<float>(unscaled.frequencies()[i] / scaled.frequencies()[i]));
  }
  return divisors;
}

}  // namespace bantam::inline v0
