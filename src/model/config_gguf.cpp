// GGUF metadata to a checked ModelConfig.
#include "bantam/model/config.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "bantam/core/error.hpp"
#include "bantam/io/gguf.hpp"
#include "config_words.hpp"
#include "model/gate_sparsity.hpp"
#include "model/gguf_architecture.hpp"
#include "model/ngram_config.hpp"
#include "model/recurrent_config.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

namespace {

/// What a file says of the router beside its numbers; few do, for the architecture decides.
void read_router(const GgufFile& file, const std::string& prefix, nn::RouterOptions& router) {
  router.renormalize = file.boolean(prefix + "expert_weights_norm").value_or(router.renormalize);
  const std::string place = file.path().string();
  if (const auto function = file.number(prefix + "expert_gating_func"); function && *function != 0) {
    if (*function != 1 && *function != 2 && *function != 3) {
      fail(Errc::unsupported, place, ": ", prefix, "expert_gating_func: expected 1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen), found ", *function);
    }
    router.score = detail::score_of(*function);
  }
}

/// Phi's two lists of divisors, which files have as tensors.
void read_longrope(const GgufFile& file, const std::string& prefix, ModelConfig& c) {
  const std::string place = file.path().string();
  const auto divisors = [&](std::string_view name) {
    const TensorEntry* entry = file.find(name);
    const std::vector<std::int64_t> shape{c.rope.dim / 2};
    if (entry == nullptr || entry->type != "F32" || entry->shape != shape) {
      fail(Errc::corrupt, place, ": ", name, ": expected F32 ", to_string(shape), ", found ", entry == nullptr ? std::string("nothing") : message(entry->type, " ", to_string(entry->shape)));
    }
    std::vector<float> values(static_cast<std::size_t>(shape[0]));
    std::memcpy(values.data(), entry->bytes.data(), values.size() * sizeof(float));
    return values;
  };
  c.rope.scaling = nn::RopeScaling::longrope;
  c.rope.divisors = divisors("rope_factors_short.weight");
  c.rope.long_divisors = divisors("rope_factors_long.weight");
  const double original = file.number(prefix + "original_context_length").value_or(static_cast<double>(c.context));
  if (!(original >= 2) || original > static_cast<double>(detail::largest_extent)) {
    fail(Errc::corrupt, place, ": ", prefix, "original_context_length: expected 2 to ", detail::largest_extent, ", found ", original);
  }
  c.rope.original_context = static_cast<std::int64_t>(original);
  c.rope.attention_factor = file.number(prefix + "attn_factor").value_or(1);
}

/// A flag for each layer, as truth values or numbers; empty where there is no list. Those of layers that draft may follow, which are left out.
std::vector<bool> flags_of(const GgufFile& file, const std::string& key, const ModelConfig& c) {
  const GgufValue* value = file.value(key);
  std::vector<bool> flags;
  if (value == nullptr) return flags;
  if (const auto* truths = std::get_if<std::vector<bool>>(value)) flags = *truths;
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(value)) {
    for (const std::int64_t number : *numbers) flags.push_back(number != 0);
  }
  const bool is_list = std::holds_alternative<std::vector<bool>>(*value) || std::holds_alternative<std::vector<std::int64_t>>(*value);
  if (std::ssize(flags) == c.layers + c.drafting_layers) flags.resize(static_cast<std::size_t>(c.layers));
  if (is_list && std::ssize(flags) != c.layers) fail(Errc::corrupt, file.path().string(), ": ", key, ": expected ", c.layers, " flags, found ", flags.size());
  return flags;
}

/// Layers that have a window: a list, or each but those that are a multiple of a number, or as the architecture says.
std::vector<bool> windows_of(const GgufFile& file, const std::string& key, const ModelConfig& c) {
  const ArchSpec& arch = *c.arch;
  std::vector<bool> windows;
  for (std::int64_t i = 0; i < c.layers; ++i) windows.push_back(detail::has_window(arch, i));
  const GgufValue* value = file.value(key);
  if (value == nullptr) return windows;
  if (std::vector<bool> flags = flags_of(file, key, c); !flags.empty()) return flags;
  const std::optional<double> step = file.number(key);
  if (!step || !(*step >= 0) || *step > static_cast<double>(detail::largest_extent)) fail(Errc::corrupt, file.path().string(), ": ", key, ": expected a number of layers or a flag for each, found something else");
  // 1: all see everything; 0: all have the window.
  for (std::int64_t i = 0; i < c.layers; ++i) windows[static_cast<std::size_t>(i)] = detail::has_window(arch, i, static_cast<std::int64_t>(*step));
  return windows;
}

/// What a model is for, where a file says it: what stands for a text, whether tokens see what follows them.
void read_use(const GgufFile& file, const std::string& prefix, ModelConfig& c) {
  const std::string place = file.path().string();
  if (const auto causal = file.boolean(prefix + "attention.causal"); causal && *causal != c.arch->causal) {
    fail(Errc::unsupported, place, ": ", prefix, "attention.causal: expected ", c.arch->causal ? "true" : "false", " of this architecture, found the other");
  }
  const bool ranks = file.number(prefix + "pooling_type") == 4.0;
  const std::string key = prefix + (ranks ? "classifier.pooling_type" : "pooling_type");
  if (const auto* names = file.texts(prefix + "classifier.output_labels"); ranks && names != nullptr && names->size() <= 1 << 16) {
    for (const std::string& name : *names) c.label_names.push_back(utf8::repaired(name));
  }
  if (const std::string use_key = message(prefix, problem_type_key); ranks && file.text(use_key) != nullptr) c.label_use = label_use_of(*file.text(use_key), use_key, place);
  const auto pooling = file.number(key);
  // Of classifiers with a norm llama.cpp takes the mean where a file does not say it.
  if (ranks && !pooling && c.arch->find(Role::class_norm) != nullptr) c.pooling = Pooling::mean;
  if (!pooling || *pooling == -1 || *pooling == 0) return;
  if (*pooling == 1) c.pooling = Pooling::mean;
  if (*pooling == 2) c.pooling = Pooling::cls;
  if (*pooling == 3) c.pooling = Pooling::last;
  if (!c.pooling) fail(Errc::unsupported, place, ": ", key, ": expected 0 (none), 1 (mean), 2 (cls)", ranks ? " or 3 (last)" : ", 3 (last) or 4 (rank)", ", found ", *pooling);
}

/// Layers behind pooling, without biases and with nothing between them.
void read_pooled_layers(const GgufFile& file, const std::string& prefix, ModelConfig& c) {
  for (const Role role : {Role::pooled_dense, Role::pooled_dense_2}) {
    if (file.find(c.arch->find(role)->gguf) == nullptr) return;
    const std::string key = message(prefix, role == Role::pooled_dense ? "dense_2_feat_out" : "dense_3_feat_out");
    const double outputs = file.number(key).value_or(0);
    if (!(outputs >= 1) || outputs > 1 << 16 || outputs != std::floor(outputs)) fail(Errc::corrupt, file.path().string(), ": ", key, ": expected a whole number from 1 to 65536, found ", outputs);
    c.pooled_layers.push_back({.outputs = static_cast<std::int64_t>(outputs)});
  }
}

/// Where a file has the numbers of an architecture.
struct Numbers {
  const GgufFile& file;
  const std::string& name;  ///< that keys begin with
  const ArchSpec& arch;

  [[nodiscard]] std::string key(Field field) const {
    const ConfigKey* key = arch.find(field);
    return key == nullptr || key->gguf.empty() ? std::string() : message(name, ".", key->gguf);
  }
  [[nodiscard]] const std::vector<std::int64_t>* whole_list(Field field) const {
    const GgufValue* value = file.value(key(field));
    return value != nullptr ? std::get_if<std::vector<std::int64_t>>(value) : nullptr;
  }
  [[nodiscard]] std::vector<double> list(Field field) const {
    const auto* list = whole_list(field);
    std::vector<double> numbers = list != nullptr ? std::vector<double>(list->begin(), list->end()) : std::vector<double>();
    // Those of layers that draft are the last.
    const std::int64_t drafting = file.integer(key(Field::drafting_layers)).value_or(0);
    if (drafting > 0 && drafting < std::ssize(numbers)) numbers.resize(numbers.size() - static_cast<std::size_t>(drafting));
    return numbers;
  }
  [[nodiscard]] std::optional<double> number(Field field) const {
    const auto* list = whole_list(field);
    const ConfigKey* own = arch.find(field);
    // What no container says.
    if (own != nullptr && own->gguf.empty() && own->hf.empty() && own->otherwise != 0) return own->otherwise;
    if (list == nullptr) return file.number(key(field));
    // Some writers give one number a layer; equal numbers mean the same.
    const std::string place = file.path().string();
    const std::int64_t layers = file.integer(key(Field::layers)).value_or(0);
    if (static_cast<std::int64_t>(list->size()) != layers) fail(Errc::corrupt, place, ": ", key(field), ": expected one number or ", layers, ", found ", list->size());
    for (const std::int64_t entry : *list) {
      if (entry != list->front() && !detail::may_differ(field)) fail(Errc::unsupported, place, ": ", key(field), ": expected one number for all layers, found several");
    }
    return list->empty() ? std::nullopt : std::optional(static_cast<double>(list->front()));
  }
  /// Where folders flag the layers with experts, the tensors of GGUF files tell.
  [[nodiscard]] bool is_dense(std::int64_t layer) const {
    return !arch.sparse_flags_key.empty() && std::ranges::any_of(std::array{Role::gate, Role::up, Role::down}, [&](Role role) { return file.find(name_from(arch.find(role)->gguf, {role, layer})) != nullptr; });
  }
};

void read_windows(const GgufFile& file, const std::string& prefix, const detail::Source& source, ModelConfig& c) {
  const std::string key = prefix + "attention.sliding_window";
  // llama.cpp's chunks have one size.
  const double chunk = c.arch->chunks_windows ? 8192 : 0;
  if (c.arch->chunks_windows && file.number(key).value_or(1) == 0) fail(Errc::unsupported, source.place, ": ", key, ": expected attention in chunks, found 0");
  if (source.number(Field::window).value_or(chunk) == 0) return;
  const std::vector<bool> windows = windows_of(file, key + "_pattern", c);
  const std::int64_t window = source.number(Field::window) ? detail::require_extent(source, Field::window) : static_cast<std::int64_t>(chunk);
  for (std::int64_t i = 0; i < c.layers; ++i) c.specs[static_cast<std::size_t>(i)].window = windows[static_cast<std::size_t>(i)] ? window : 0;
  c.set_layers(std::move(c.specs));
}

/// What gates of each layer stay below: one number, or a list, which may go on to layers that draft.
void read_limits(const GgufFile& file, const std::string& prefix, ModelConfig& c) {
  for (const auto& [limit, name] : gate_limits) {
    const std::string key = message(prefix, name), place = message(file.path().string(), ": ", key);
    const std::vector<double>* const list = file.numbers(key);
    const double one = list != nullptr ? 0 : file.number(key).value_or(0);
    if (list != nullptr && std::ssize(*list) != c.layers && std::ssize(*list) != c.layers + c.drafting_layers) fail(Errc::corrupt, place, ": expected one number or ", c.layers, ", found ", list->size());
    for (std::size_t i = 0; i < c.specs.size(); ++i) c.specs[i].*limit = detail::checked_limit(list != nullptr ? (*list)[i] : one, place);
  }
}

/// How many neighboring tokens an indexer chooses together. Files without such numbers have layers that see everything.
void read_index_blocks(const GgufFile& file, const std::string& prefix, ModelConfig& c) {
  if (c.arch->find(Field::index_block) == nullptr) return;
  const std::string key = message(prefix, index_blocks_key);
  const std::vector<std::int64_t>* const list = file.value(key) != nullptr ? file.integers(key) : nullptr;
  c.index.block = list != nullptr && !list->empty() ? *std::ranges::max_element(*list) : 0;
  if (c.index.block < 0 || c.index.block > c.index.used) fail(Errc::corrupt, file.path().string(), ": ", key, ": expected up to ", c.index.used, " tokens, found ", c.index.block);
  if (c.index.block > 0) return;
  c.index.block = 1;
  c.index.used = c.context;
}

/// Which layers have an indexer of their own. Files without a word on it may lack the tensors of those that have none.
void read_shared_choices(const GgufFile& file, const std::string& prefix, ModelConfig& c) {
  if (!c.arch->may_share_choices) return;
  const std::vector<bool> own = flags_of(file, message(prefix, indexers_key), c);
  const std::string_view name = c.arch->find(Role::index_k)->gguf;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    c.specs[static_cast<std::size_t>(i)].shares_choice = own.empty() ? file.find(name_from(name, {Role::index_k, i})) == nullptr : !own[static_cast<std::size_t>(i)];
  }
}

/// How rope is stretched over longer texts.
void read_scaling(const GgufFile& file, const std::string& prefix, ModelConfig& c) {
  const std::string place = file.path().string();
  const std::string* type = file.text(prefix + "type");
  if (file.find("rope_factors_long.weight") != nullptr) return read_longrope(file, prefix, c);
  if (type == nullptr || *type == "none") return;
  if (*type == "linear") {
    c.rope.scaling = nn::RopeScaling::linear;
  } else if (*type == "yarn") {
    c.rope.scaling = nn::RopeScaling::yarn;
  } else {
    fail(Errc::unsupported, place, ": ", prefix, "type: expected none, linear or yarn, found ", printable(*type));
  }
  c.rope.factor = file.number(prefix + "factor").value_or(1);
  if (!(c.rope.factor >= 1) || !std::isfinite(c.rope.factor)) fail(Errc::corrupt, place, ": ", prefix, "factor: expected at least 1, found ", c.rope.factor);
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
  if (c.rope.scaling != nn::RopeScaling::yarn) return;
  c.rope.beta_fast = positive("yarn_beta_fast", c.rope.beta_fast);
  c.rope.beta_slow = positive("yarn_beta_slow", c.rope.beta_slow);
  const bool has_multiplier = file.value(prefix + "yarn_log_multiplier") != nullptr;
  // 0.1 times what folders say; cosines and sines keep their length.
  if (c.arch->latent && has_multiplier) {
    c.rope.score_mscale = static_cast<float>(positive("yarn_log_multiplier", 0.1) * 10);
    c.rope.attention_factor = 1;
  }
  // Theirs multiplies the usual factor; ours, as Hugging Face's, stands for it.
  const double usual = 0.1 * std::log(c.rope.factor) + 1;
  if (file.value(prefix + "attn_factor") != nullptr) c.rope.attention_factor = positive("attn_factor", 1) * usual;
  // Ministral's mscale_all_dim, beside an mscale of 1.
  if (!c.arch->latent && has_multiplier) c.rope.attention_factor = usual / (0.1 * positive("yarn_log_multiplier", 1) * std::log(c.rope.factor) + 1);
}

/// Which rope turns which layer, and how queries grow with their position.
void read_layer_ropes(const GgufFile& file, const std::string& prefix, const detail::Source& source, ModelConfig& c) {
  const ArchSpec& arch = *c.arch;
  const double local = source.number(Field::local_rope_base).value_or(0);
  if (!(local >= 0) || !std::isfinite(local)) fail(Errc::corrupt, source.place, ": ", source.key(Field::local_rope_base), ": expected a number above 0, found ", local);
  const std::int64_t local_dim = detail::extent_or(source, Field::local_rope_dim, c.rope.dim);
  if (local_dim > c.head_dim || local_dim % 2 != 0) fail(Errc::corrupt, source.place, ": ", source.key(Field::local_rope_dim), ": expected an even size up to the head's ", c.head_dim, ", found ", local_dim);
  if (arch.halves_full_rope && c.rope.dim % 4 != 0) fail(Errc::corrupt, source.place, ": ", source.key(Field::rope_dim), ": expected a multiple of 4, found ", c.rope.dim);
  if (arch.halves_full_rope) c.rope.dim /= 2;
  detail::set_ropes(c, local, local_dim);
  if (!arch.rope_bases_key.empty()) {
    const std::vector<bool> turned = flags_of(file, prefix + "attention.rope_pattern", c);
    for (std::size_t i = 0; i < turned.size(); ++i) c.specs[i].rope = turned[i] ? nn::LayerRope::model : nn::LayerRope::none;
  }
  const double temperature = source.number(Field::temperature_scale).value_or(0);
  if (!(temperature >= 0) || !std::isfinite(temperature)) fail(Errc::corrupt, source.place, ": ", source.key(Field::temperature_scale), ": expected a number of at least 0, found ", temperature);
  c.temperature = {.scale = temperature, .length = static_cast<double>(c.rope.original_context)};
  if (arch.temperature.scale > 0) c.temperature = arch.temperature;
  c.norms_turned = arch.norms_turned && detail::gguf_norms_turned(c);
}

}  // namespace

ModelConfig read_gguf_config(const GgufFile& file) {
  const std::string place = file.path().string();
  const std::string* name = file.text("general.architecture");
  if (name == nullptr) fail(Errc::corrupt, place, ": general.architecture: expected the name of an architecture, found nothing");
  const ArchSpec& arch = detail::find_gguf_arch(file, *name);
  const Numbers numbers{file, *name, arch};
  const std::string prefix = *name + ".";
  const detail::Source source{.place = place,
                              .number = [&](Field field) { return numbers.number(field); },
                              .list = [&](Field field) { return numbers.list(field); },
                              .key = [&](Field field) { return numbers.key(field); },
                              .layers_have_drafting = true,
                              .is_dense = [&](std::int64_t layer) { return numbers.is_dense(layer); },
                              .kinds = [&](std::int64_t layers) { return detail::layer_kinds_of(file, arch, layers); }};
  ModelConfig c = detail::read_sizes(arch, source);
  if (const ConfigKey* key = arch.find(Field::kv_heads); key != nullptr && key->hf.empty() && key->otherwise > 0 && static_cast<double>(c.kv_heads) != key->otherwise) {
    fail(Errc::unsupported, place, ": ", source.key(Field::kv_heads), ": expected ", key->otherwise, " of a model of type ", arch.name, ", found ", c.kv_heads);
  }
  if (c.scales.attention == 0) c.scales.attention = detail::unsaid_attention_scale(c);
  read_windows(file, prefix, source, c);
  const auto shares_values = [&](std::int64_t layer) {
    const TensorKey* v = arch.may_share_values ? arch.find(Role::v) : nullptr;
    return v != nullptr && file.find(name_from(v->gguf, {Role::v, layer})) == nullptr;
  };
  detail::read_full_layers(source, {.shares_values = shares_values}, c);
  if (arch.says_parallel && file.boolean(prefix + "use_parallel_residual").value_or(arch.parallel) != arch.parallel) {
    fail(Errc::unsupported, place, ": ", prefix, "use_parallel_residual: expected ", arch.parallel ? "true" : "false");
  }
  if (arch.has_experts()) read_router(file, prefix, c.router);
  if (arch.find(Field::decay_bound) != nullptr && !file.boolean(prefix + "kda.safe_gate").value_or(true)) fail(Errc::unsupported, place, ": ", prefix, "kda.safe_gate: expected true, found false");
  if (arch.limits_gates()) read_limits(file, prefix, c);
  detail::read_gate_sparsity(file, prefix, c);
  c.sigmoid_delta = !arch.delta_gate_key.empty();
  read_index_blocks(file, prefix, c);
  read_shared_choices(file, prefix, c);
  detail::check_index(c, place);
  detail::read_ngrams(file, prefix, c);
  read_use(file, prefix, c);
  read_pooled_layers(file, prefix, c);
  if (arch.says_rope) c.has_rope = file.boolean(prefix + "rope.scaling.finetuned").value_or(true);
  if (const auto* tokens = file.texts("tokenizer.ggml.tokens")) c.vocab = static_cast<std::int64_t>(tokens->size());
  c.vocab = detail::extent_or(source, Field::vocab, c.vocab);
  read_scaling(file, prefix + "rope.scaling.", c);
  read_layer_ropes(file, prefix, source, c);
  if (!arch.gguf_activation_key.empty()) {
    const std::string key = message(prefix, arch.gguf_activation_key);
    const std::string* const activation = file.text(key);
    c.gate = activation == nullptr ? ops::Gate::silu : gate_of(*activation, key, place);
  }
  detail::check_router(c.router, place);
  detail::check_rope(c.rope, place);
  return c;
}

}  // namespace bantam::inline v0
