// A ModelConfig as GGUF metadata.
#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"
#include "bantam/io/gguf_writer.hpp"
#include "bantam/model/archs.hpp"
#include "config_words.hpp"
#include "model/config_source.hpp"
#include "model/gate_sparsity.hpp"
#include "model/ngram_config.hpp"

namespace bantam::inline v0 {

namespace {

[[noreturn]] void no_words_for(std::string_view what) { fail(Errc::unsupported, "config: ", what, ": GGUF has no words for it"); }

void write_scaling(GgufWriter& file, const nn::RopeOptions& rope, const std::string& prefix) {
  using nn::RopeScaling;
  if (rope.scaling == RopeScaling::none || rope.scaling == RopeScaling::llama3) return;  // llama3: as rope_freqs.weight
  if (rope.scaling == RopeScaling::dynamic) no_words_for("dynamic rope scaling");
  if (rope.scaling == RopeScaling::longrope) {
    // Its divisors are tensors.
    file.key(prefix + "original_context_length", static_cast<std::uint32_t>(rope.original_context));
    return file.key(prefix + "attn_factor", static_cast<float>(rope.attention_factor));
  }
  file.key(prefix + "type", rope.scaling == RopeScaling::linear ? "linear" : "yarn");
  file.key(prefix + "factor", static_cast<float>(rope.factor));
  if (rope.original_context > 0) file.key(prefix + "original_context_length", static_cast<std::uint32_t>(rope.original_context));
  if (rope.scaling != RopeScaling::yarn) return;
  file.key(prefix + "yarn_beta_fast", static_cast<float>(rope.beta_fast));
  file.key(prefix + "yarn_beta_slow", static_cast<float>(rope.beta_slow));
  if (rope.score_mscale > 0) {
    // Cosines and sines keep their length there, then.
    if (rope.attention_factor != 0 && rope.attention_factor != 1) no_words_for("an mscale other than mscale_all_dim");
    return file.key(prefix + "yarn_log_multiplier", static_cast<float>(0.1 * rope.score_mscale));
  }
  // Theirs multiplies the usual factor; ours, as Hugging Face's, stands for it.
  if (rope.attention_factor > 0) file.key(prefix + "attn_factor", static_cast<float>(rope.attention_factor / (0.1 * std::log(rope.factor) + 1)));
}

// llama.cpp's numbers of gating functions.
constexpr std::pair<nn::RouterScore, std::uint32_t> gating_functions[] = {
    {nn::RouterScore::softmax, 1}, {nn::RouterScore::sigmoid, 2}, {nn::RouterScore::softmax_of_chosen, 3}};

void write_router(GgufWriter& file, const nn::RouterOptions& router, const ArchSpec& arch, const std::string& prefix) {
  if (router.jitter != arch.router.jitter) no_words_for("a jitter of the router other than the architecture's");
  file.key(prefix + "expert_weights_norm", router.renormalize);
  if (router.score == nn::RouterScore::in_turn && router.score == arch.router.score) return;  // which the architecture says
  const auto function = std::ranges::find(gating_functions, router.score, &std::pair<nn::RouterScore, std::uint32_t>::first);
  if (function == std::end(gating_functions)) no_words_for("this score of the router");
  file.key(prefix + "expert_gating_func", function->second);
}

/// Whether a file lists a number of each layer: layers without a window have others, or none where a layer does not attend.
bool of_each_layer(const ModelConfig& c, Field field) noexcept {
  if (field == Field::heads && !c.arch->heads_key.empty()) return true;
  if (c.arch->drops_halves && (field == Field::heads || field == Field::kv_heads || field == Field::ffn)) return true;
  if (c.arch->zero_heads && (field == Field::kv_heads || (field == Field::ffn && c.arch->single_halves))) return true;
  if (!c.arch->full_layers_differ()) return false;
  const auto differ = [&](std::int64_t LayerSpec::* size) { return std::ranges::any_of(c.specs, [&](const LayerSpec& spec) { return spec.*size != c.layer(0).*size; }); };
  if (field == Field::kv_heads) return differ(&LayerSpec::kv_heads);
  return c.arch->full_heads_differ() && (field == Field::ffn || field == Field::shared_ffn) && differ(&LayerSpec::ffn);
}

/// What such a list says of a layer.
std::int64_t listed_number(const ModelConfig& c, Field field, std::int64_t i) noexcept {
  const LayerSpec& spec = c.layer(i);
  if (field == Field::heads) return c.arch->drops_halves && !attends(spec.mixer) ? 0 : c.heads_of(i);
  // Of latent attention the cache's one.
  if (field == Field::kv_heads) return !attends(spec.mixer) ? 0 : c.is_latent() ? 1 : spec.kv_heads;
  return c.arch->single_halves && spec.is_sparse() ? spec.expert_ffn : spec.ffn;
}

/// What gates of each layer stay below.
void write_limits(GgufWriter& file, const ModelConfig& c, const std::string& prefix) {
  for (const auto& [limit, name] : gate_limits) {
    std::vector<float> limits;
    for (const LayerSpec& spec : c.specs) limits.push_back(spec.*limit);
    file.key(message(prefix, name), std::span<const float>(limits));
  }
}

void write_lists(GgufWriter& file, const ModelConfig& c, const std::string& prefix) {
  for (const Field field : {Field::heads, Field::kv_heads, Field::ffn, Field::shared_ffn}) {
    const ConfigKey* key = c.arch->find(field);
    std::string_view name = key != nullptr ? key->gguf : std::string_view();
    if (field == Field::kv_heads && c.arch->zero_heads) name = "attention.head_count_kv";  // Kimi Linear's number is of the cache
    if (name.empty() || !of_each_layer(c, field)) continue;
    std::vector<std::int32_t> sizes;
    for (std::int64_t i = 0; i < c.layers; ++i) sizes.push_back(static_cast<std::int32_t>(listed_number(c, field, i)));
    file.key(message(prefix, name), std::span<const std::int32_t>(sizes));
  }
  if (c.arch->find(Field::index_block) != nullptr) {
    std::vector<std::int32_t> blocks;
    for (const LayerSpec& spec : c.specs) blocks.push_back(attends(spec.mixer) ? static_cast<std::int32_t>(c.index.block) : 0);
    file.key(message(prefix, index_blocks_key), std::span<const std::int32_t>(blocks));
  }
  if (c.arch->may_share_choices) {
    std::vector<bool> own;
    for (const LayerSpec& spec : c.specs) own.push_back(!spec.shares_choice);
    file.key(message(prefix, indexers_key), own);
  }
  if (!c.arch->flags_windows) return;
  std::vector<bool> windows;
  for (const LayerSpec& spec : c.specs) windows.push_back(spec.window > 0);
  file.key(prefix + "attention.sliding_window_pattern", windows);
  if (c.arch->rope_bases_key.empty()) return;
  std::vector<bool> turned;
  for (const LayerSpec& spec : c.specs) turned.push_back(spec.rope != nn::LayerRope::none);
  file.key(prefix + "attention.rope_pattern", turned);
}

bool says_activation(const ModelConfig& c) noexcept { return !c.arch->gguf_activation_key.empty() && !activation_name_of(c.gate).empty(); }

/// The architecture that a file of this one is read as.
const ArchSpec& read_as(const ArchSpec& arch) { return **std::ranges::find(architectures, arch.gguf_name(), &ArchSpec::gguf_name); }

/// What a model is for: as llama.cpp numbers it, and what it asks for of encoders.
void write_use(GgufWriter& file, const ModelConfig& c, const std::string& prefix) {
  if (!c.arch->causal) file.key(prefix + "attention.causal", false);
  if (c.arch->full_layers_lead && !c.arch->flags_windows && c.window > 0) file.key(prefix + "attention.sliding_window_pattern", static_cast<std::uint32_t>(c.arch->full_attention_step));
  // llama.cpp asks for it of each BERT, and of DistilBERTs its converter says 1.
  if (c.token_types > 0 || (!c.arch->causal && c.arch->norms_sums)) file.key("tokenizer.ggml.token_type_count", static_cast<std::uint32_t>(std::max<std::int64_t>(1, c.token_types)));
  std::int64_t inputs = c.dim;
  for (std::size_t i = 0; i < c.pooled_layers.size(); ++i) {
    const std::string name = message(prefix, "dense_", i + 2, "_feat_");
    file.key(name + "in", static_cast<std::uint32_t>(inputs));
    inputs = c.pooled_layers[i].outputs;
    file.key(name + "out", static_cast<std::uint32_t>(inputs));
  }
  constexpr std::uint32_t pooling_numbers[] = {1, 2, 3};
  const auto number_of = [&](Pooling pooling) { return pooling_numbers[static_cast<std::size_t>(pooling)]; };
  if (c.labels > 0) {
    if (c.arch->find(Role::class_norm) != nullptr) file.key(prefix + "classifier.pooling_type", number_of(c.usual_pooling()));
    file.key(prefix + "classifier.output_labels", c.names_of_labels());
    if (c.label_use != LabelUse::one_of) file.key(message(prefix, problem_type_key), problem_type_of(c.label_use));
    file.key(prefix + "pooling_type", std::uint32_t{4});
  } else if (c.pooling) {
    file.key(prefix + "pooling_type", number_of(*c.pooling));
  }
}

/// Rope, windows and shared keys in other layers than a reader of GGUF files expects them in.
void refuse_other_layers(const ModelConfig& c) {
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const bool is_said = !c.arch->rope_bases_key.empty() && c.layer(i).rope != nn::LayerRope::local;
    if (!is_said && c.layer(i).rope != detail::rope_of(c, i)) no_words_for("rope in other layers than the architecture has it in");
    if (!c.arch->flags_windows && c.window_of(i) != (detail::has_window(*c.arch, i) ? c.window : 0)) no_words_for("a sliding window of other layers than the architecture has it in");
    if (c.arch->attention_step > 0 && attends(c.layer(i).mixer) != ((i + 1) % c.arch->attention_step == 0)) no_words_for("attention in other layers than the architecture has it in");
  }
  for (std::int64_t i = 0, first = 0; i < c.layers; ++i) {
    if (c.layer(i).kv_layer < 0) first = i + 1;
    if (c.layer(i).kv_layer >= 0 && c.layer(i).kv_layer != first - (c.window_of(i) > 0 ? 2 : 1)) no_words_for("keys read from another layer than the last with a window and, behind it, without");
  }
}

/// Numbers and kinds of blocks that files do not say, for the architecture does.
void refuse_others(const ModelConfig& c) {
  const ArchSpec& arch = *c.arch;
  if (c.gate != arch.gate && !says_activation(c)) no_words_for("an activation other than the architecture's");
  const bool says_scale = arch.find(Field::attention_scale) != nullptr && !arch.find(Field::attention_scale)->gguf.empty();
  if (!says_scale && c.scales.attention != detail::unsaid_attention_scale(c)) no_words_for("a scale of scores other than the architecture's");
  if (arch.temperature.scale > 0 && c.temperature != arch.temperature) no_words_for("a temperature other than the architecture's");
  if (arch.norms_turned && c.norms_turned != detail::gguf_norms_turned(c)) no_words_for("queries and keys without norms, or with norms in a model of 128 experts");
  if (arch.find(Field::embedding_scale) == nullptr && c.scales.embedding != (arch.scales_embedding ? std::sqrt(static_cast<double>(c.dim)) : 1)) no_words_for("a scale of the embedding");
  if (arch.halves_full_rope && c.local_rope && c.local_rope->dim != 2 * c.rope.dim) no_words_for("a rope that turns another part of layers without a window than half of what it turns of the others");
  if (c.relative_bias.distance != arch.relative_bias.distance) no_words_for("biases by other distances than up to 128");
  if (c.recurrent.channel_decays && c.recurrent.value_heads != c.heads) no_words_for("other heads of delta nets than of attention");
  if (std::ranges::any_of(c.pooled_layers, [](const PooledLayer& layer) { return layer.has_bias || layer.is_tanh; })) no_words_for("layers behind pooling with a bias or a tanh");
  if (c.labels > 0 && arch.find(Role::class_dense) != nullptr && arch.class_activation != read_as(arch).class_activation) no_words_for("a classifier with another activation than BERT's tanh");
  if (c.labels > 0 && arch.folds_scales) no_words_for("a classifier of a model whose scales are in its weights there");
  if (!arch.delta_gate_key.empty() && !c.sigmoid_delta) no_words_for("a gate of delta nets other than sigmoid");
  if (c.ngrams.exist() && c.ngrams.all_width() != c.dim) no_words_for("embeddings of n-grams that are not as wide as the residual stream");
  if (arch.folds_scales && c.scales != ModelScales()) no_words_for("scales that are not in weights");
}

void write_numbers(GgufWriter& file, const ModelConfig& c, const std::string& prefix) {
  for (const auto& list : {c.arch->config, c.arch->more_config}) {
    for (const ConfigKey& key : list) {
      if (key.gguf.empty() || c.arch->find(key.field) != &key || of_each_layer(c, key.field)) continue;
      FieldValue value = value_of(c, key.field);
      if (key.field == Field::layers) value = std::get<std::int64_t>(*value) + std::ssize(c.drafting);
      if (key.field == Field::rope_dim && c.arch->halves_full_rope) value = 2 * c.rope.dim;
      const std::string name = message(prefix, key.gguf);
      if (!value) continue;
      if (const auto* whole = std::get_if<std::int64_t>(&*value)) {
        file.key(name, static_cast<std::uint32_t>(*whole));
      } else {
        file.key(name, static_cast<float>(std::get<double>(*value)));
      }
    }
  }
}

}  // namespace

void write_gguf_config(GgufWriter& file, const ModelConfig& c) {
  refuse_other_layers(c);
  refuse_others(c);
  const bool attends_alone = !c.arch->gguf_attending.empty() && c.has_rope && std::ranges::all_of(c.specs, [](const LayerSpec& spec) { return attends(spec.mixer); });
  const std::string_view architecture = attends_alone ? c.arch->gguf_attending : c.arch->gguf_name();
  const std::string prefix = message(architecture, ".");
  file.key("general.architecture", architecture);
  file.key("general.quantization_version", std::uint32_t{2});
  if (says_activation(c)) file.key(message(prefix, c.arch->gguf_activation_key), activation_name_of(c.gate));
  write_numbers(file, c, prefix);
  if (c.arch->limits_gates()) write_limits(file, c, prefix);
  detail::write_gate_sparsity(c, prefix, file);
  write_lists(file, c, prefix);
  write_use(file, c, prefix);
  detail::write_ngrams(c, prefix, file);
  if (c.arch->says_rope) file.key(prefix + "rope.scaling.finetuned", c.has_rope);
  if (c.arch->says_parallel) file.key(prefix + "use_parallel_residual", c.arch->parallel);
  if (c.arch->single_halves) file.key(prefix + "attention.layer_norm_epsilon", static_cast<float>(c.norm_eps));  // llama.cpp asks for both
  if (c.arch->rope_sections) {
    // Pairs by axis, as equal as can be: a text's positions are the same on all.
    const auto pairs = static_cast<std::int32_t>(c.rope.dim / 2);
    const std::int32_t sections[] = {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0};
    file.key(prefix + "rope.dimension_sections", std::span<const std::int32_t>(sections));
  }
  if (c.has_experts()) write_router(file, c.router, *c.arch, prefix);
  write_scaling(file, c.rope, prefix + "rope.scaling.");
}

std::vector<std::pair<std::string, std::vector<float>>> gguf_rope_tensors(const ModelConfig& config) {
  if (config.rope.scaling == nn::RopeScaling::longrope) return {{"rope_factors_long.weight", config.rope.long_divisors}, {"rope_factors_short.weight", config.rope.divisors}};
  std::vector<float> divisors;
  // llama.cpp asks for as many as the rope of layers with a window has pairs, and reads half of them.
  const auto whole = [&] {
    if (config.arch->halves_full_rope) divisors.resize(static_cast<std::size_t>(config.rope.dim), 1);
    return std::vector<std::pair<std::string, std::vector<float>>>{{"rope_freqs.weight", divisors}};
  };
  if (config.rope.scaling != nn::RopeScaling::llama3) {
    divisors = config.rope.divisors;
    return divisors.empty() ? std::vector<std::pair<std::string, std::vector<float>>>() : whole();
  }
  nn::RopeOptions plain = config.rope;
  plain.scaling = nn::RopeScaling::none;
  plain.divisors.clear();
  const nn::Rope unscaled(plain), scaled(config.rope);
  for (std::size_t i = 0; i < unscaled.frequencies().size(); ++i) {
    divisors.push_back(static_cast<float>(unscaled.frequencies()[i] / scaled.frequencies()[i]));
  }
  return whole();
}

}  // namespace bantam::inline v0
