// Reading config.json.
#include "bantam/model/config.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"
#include "bantam/io/file.hpp"
#include "bantam/model/seeing.hpp"
#include "io/config_text.hpp"
#include "model/block_configs.hpp"
#include "model/config_class.hpp"
#include "model/config_json.hpp"
#include "model/config_layers.hpp"
#include "model/config_rope.hpp"
#include "model/config_words.hpp"
#include "model/gate_sparsity.hpp"
#include "model/ngram_config.hpp"
#include "model/recurrent_config.hpp"
#include "model/step_config.hpp"
#include "text/json.hpp"

namespace bantam::inline v0::detail {

namespace {

/// The activation of MLPs.
void read_gate(const Json& json, const std::string& place, ModelConfig& c) {
  const ArchSpec& arch = *c.arch;
  const std::string activation = text_at(json, arch.activation_key, place, "");
  const bool own_name = activation.empty() || activation == arch.activation_name;
  c.gate = own_name ? arch.gate : gate_of(activation, arch.activation_key, place);
  // Which no name stands for.
  if (c.gate == ops::Gate::silu && arch.gate == ops::Gate::clamped_silu) c.gate = arch.gate;
  if (const auto limit = number_at(json, "swiglu_limit", place); limit && c.gate == ops::Gate::clamped_silu && *limit != 7) {
    fail(Errc::unsupported, place, ": swiglu_limit: expected 7, found ", *limit);
  }
}

void read_router(const Json& json, const std::string& place, ModelConfig& c) {
  c.router.renormalize = flag_at(json, "norm_topk_prob", place, c.router.renormalize);
  // DeepSeek V2's plain choice beside the one by groups.
  if (c.has_experts() && text_at(json, "topk_method", place, "") == "greedy") c.router.groups = c.router.groups_used = 1;
  if (!c.arch->softmax_key.empty()) c.router.score = flag_at(json, c.arch->softmax_key, place, false) ? nn::RouterScore::softmax_of_chosen : nn::RouterScore::sigmoid;
  if (c.arch->score_key.empty()) return;
  const std::string score = text_at(json, c.arch->score_key, place, "softmax");
  if (score != "softmax" && score != "sigmoid") fail(Errc::unsupported, place, ": ", c.arch->score_key, ": expected softmax or sigmoid, found ", printable(score));
  c.router.score = score == "softmax" ? nn::RouterScore::softmax_of_chosen : nn::RouterScore::sigmoid;
}

/// What gates the outputs of delta nets; where nothing is said, what gates MLPs.
void read_delta_gate(const Json& json, const std::string& place, ModelConfig& c) {
  if (c.arch->delta_gate_key.empty()) return;
  const std::string gate = text_at(json, c.arch->delta_gate_key, place, "silu");
  if (gate != "sigmoid" && gate != "silu") fail(Errc::unsupported, place, ": ", c.arch->delta_gate_key, ": expected sigmoid or silu, found ", printable(gate));
  c.sigmoid_delta = gate == "sigmoid";
}

/// Positions that are learned, counted from a later one or not turned at all.
void read_positions(const Json& json, const std::string& place, ModelConfig& c) {
  const ArchSpec& arch = *c.arch;
  if (arch.pads_positions) {
    if (c.context <= arch.position_offset) fail(Errc::corrupt, place, ": ", arch.find(Field::context)->hf, ": expected more than ", arch.position_offset, ", found ", c.context);
    c.context -= arch.position_offset;
  }
  if (const std::string kind = text_at(json, "position_embedding_type", place, "absolute"); arch.learns_positions() && kind != "absolute") {
    fail(Errc::unsupported, place, ": position_embedding_type: expected absolute, found ", printable(kind));
  }
  if (arch.says_rope) {
    const std::string positions = text_at(json, "position_embedding_type", place, "nope");
    if (positions != "rope" && positions != "nope") fail(Errc::unsupported, place, ": position_embedding_type: expected rope or nope, found ", printable(positions));
    c.has_rope = positions == "rope";
  }
}

/// What some models of an architecture have and bantam has not.
void refuse_others(const Json& json, const std::string& place, const ModelConfig& c) {
  const ArchSpec& arch = *c.arch;
  if (arch.output_gate == nn::OutputGate::beside_queries && !flag_at(json, "attn_output_gate", place, true)) fail(Errc::unsupported, place, ": attn_output_gate: expected true, found false");
  if (flag_at(json, "attention_bias", place, false) && arch.proportional_rope) fail(Errc::unsupported, place, ": attention_bias: expected false, found true");
  // A text, or a truth value.
  if (const Json* both = member(json, "use_bidirectional_attention"); arch.causal && both != nullptr && (*both == Json("all") || *both == Json(true))) {
    fail(Errc::unsupported, place, ": use_bidirectional_attention: expected a causal model, found ", both->is_string() ? "all" : "true");
  }
  if (const auto own = number_at(json, "vocab_size_per_layer_input", place); own && arch.find(Field::per_layer_vocab) == nullptr && c.per_layer_dim > 0 && *own != static_cast<double>(c.vocab)) {
    fail(Errc::unsupported, place, ": vocab_size_per_layer_input: expected the ", c.vocab, " of vocab_size, found ", *own);
  }
  // Ling's shared experts are each as wide as the others.
  const auto sparse = std::ranges::find_if(c.specs, &LayerSpec::is_sparse);
  if (const auto own = number_at(json, "moe_shared_expert_intermediate_size", place); own && arch.find(Field::shared_experts) != nullptr && sparse != c.specs.end() && *own != static_cast<double>(sparse->expert_ffn)) {
    fail(Errc::unsupported, place, ": moe_shared_expert_intermediate_size: expected the ", sparse->expert_ffn, " of other experts, found ", *own);
  }
  // MiMo-V2's, of layers with a window.
  for (const auto& [key, size] : {std::pair{"swa_num_attention_heads", c.heads}, {"swa_head_dim", c.head_dim}, {"swa_v_head_dim", c.value_dim}}) {
    const auto own = number_at(json, key, place);
    if (own && arch.window_sinks && *own != static_cast<double>(size)) fail(Errc::unsupported, place, ": ", key, ": expected the ", size, " of the other layers, found ", *own);
  }
  // OPT's, and ELECTRA's.
  for (const char* key : {"word_embed_proj_dim", "embedding_size"}) {
    const auto width = number_at(json, key, place);
    if (width && *width != static_cast<double>(c.dim)) fail(Errc::unsupported, place, ": ", key, ": expected the ", c.dim, " of hidden_size, found ", *width);
  }
}

/// Where a config has the numbers of an architecture.
struct Numbers {
  const Json& json;
  const std::string& place;
  const ArchSpec& arch;
  const RopeParameters& ropes;
  bool is_part = false;  ///< of a larger model's config

  [[nodiscard]] std::string_view key(Field field) const {
    const ConfigKey* key = arch.find(field);
    return key == nullptr ? std::string_view() : key->hf;
  }
  /// A list is read as a list alone, where there may be one.
  [[nodiscard]] bool is_list(Field field) const {
    const Json* it = may_differ(field) ? find_at(json, list_key(arch, field)) : nullptr;
    return it != nullptr && it->is_array();
  }
  [[nodiscard]] std::vector<double> list(Field field) const { return is_list(field) ? list_at(json, list_key(arch, field), place) : std::vector<double>(); }
  /// null says that there is none.
  [[nodiscard]] bool is_null(Field field) const {
    const Json* it = find_at(json, key(field));
    return it != nullptr && it->is_null();
  }

  [[nodiscard]] std::optional<double> number(Field field) const {
    std::optional<double> found;
    if (is_list(field) || (field == Field::dense_layers && member(json, "mlp_layer_types") != nullptr)) return found;
    if (ropes.model != nullptr && field == Field::rope_base) {
      for (const std::string_view name : {key(field), std::string_view("rope_theta")}) {
        if (!found) found = number_at(*ropes.model, name, place);
      }
      if (found) return found;
    }
    // Of experts one number a layer may be given, all equal.
    if (const auto numbers = field < Field::experts ? std::vector<double>() : list_at(json, key(field), place); !numbers.empty()) {
      if (std::ranges::all_of(numbers, [&](double number) { return number == numbers[0]; })) return numbers[0];
      fail(Errc::unsupported, place, ": ", key(field), ": expected one number for all layers, found several");
    }
    const ConfigKey* own = arch.find(field);
    found = number_at(json, key(field), place);
    if (!found && own != nullptr) found = number_at(json, own->other, place);
    if (!found && field == Field::layers) found = listed_layers(json, arch);
    if (found && field == Field::ffn && arch.trims_ffn) found = trimmed_ffn(json, *found, place);
    if (!found && arch.full_layers_differ()) found = of_full_layers(json, field, place);
    if (!found && field == Field::kv_heads && arch.window_kv_factor > 1) {
      if (const auto others = number(Field::full_kv_heads)) found = static_cast<double>(arch.window_kv_factor) * *others;
    }
    if (!found && own != nullptr && own->otherwise != 0) found = own->otherwise;
    if (!found && is_part) found = text_default(arch, field);
    if (is_null(field)) found.reset();
    return found;
  }
};

/// How many tokens have per-layer embeddings of their own: those of images and sound may have none.
void read_per_layer_vocab(const Source& source, ModelConfig& c) {
  if (c.arch->find(Field::per_layer_vocab) == nullptr) return;
  const std::int64_t own = extent_or(source, Field::per_layer_vocab, c.vocab);
  if (own > c.vocab) fail(Errc::corrupt, source.place, ": ", source.key(Field::per_layer_vocab), ": expected at most the ", c.vocab, " of ", source.key(Field::vocab), ", found ", own);
  c.per_layer_vocab = own < c.vocab ? own : 0;
}

ModelConfig from_json(const Json& whole, const std::string& file) {
  std::string place = file;
  const Json& said = text_part(parse_object(whole, file), place);
  const bool is_part = &said != &whole;
  const ArchSpec& arch = find_hf_arch(said, place, is_part);
  const Json translated = arch.step_words ? in_usual_words(said, place) : arch.drops_halves ? with_listed_sizes(said, place) : Json();
  const Json& json = translated.is_null() ? said : translated;
  const RopeParameters ropes = rope_parameters_of(json);
  const Numbers numbers{json, place, arch, ropes, is_part};
  const Source source{.place = place,
                      .number = [&](Field field) { return numbers.number(field); },
                      .list = [&](Field field) { return numbers.list(field); },
                      .key = [&](Field field) { return std::string(numbers.key(field)); },
                      .is_dense = dense_layers_of(json, place, arch),
                      .kinds = [&](std::int64_t layers) { return layer_kinds_of(json, place, arch, layers); }};
  ModelConfig c = read_sizes(arch, source);
  c.vocab = require_extent(source, Field::vocab);
  read_per_layer_vocab(source, c);
  read_positions(json, place, c);
  read_class(json, place, c);
  // Of models whose dim was made smaller: it stays that of the original.
  if (const auto scale = arch.scales_embedding ? number_at(json, "embedding_scale", place) : std::nullopt) {
    if (!(*scale > 0) || !std::isfinite(*scale)) fail(Errc::corrupt, place, ": embedding_scale: expected a number above 0, found ", *scale);
    c.scales.embedding = *scale;
  }
  read_router(json, place, c);
  read_gate(json, place, c);
  read_delta_gate(json, place, c);
  refuse_others(json, place, c);
  c.tied = flag_at(json, "tie_word_embeddings", place, flag_at(whole, "tie_word_embeddings", file, arch.default_tied));
  c.scales_tied_logits = flag_at(json, "scale_decoder_outputs", place, arch.scales_tied_logits);
  read_rope(json, ropes, place, c);
  const std::int64_t window = read_windows(json, source, c);
  const bool shares_values = arch.may_share_values && flag_at(json, "attention_k_eq_v", place, false);
  read_full_layers(source, {.kv_heads = extent_or(source, Field::full_kv_heads, 0), .shares_values = [&](std::int64_t) { return shares_values; },
                            .doubles_ffn = flag_at(json, "use_double_wide_mlp", place, false)}, c);
  read_layer_ropes(json, ropes, source, c);
  if (arch.chunks_windows && member(json, "layer_types") == nullptr) {
    for (LayerSpec& spec : c.specs) spec.window = spec.rope == nn::LayerRope::none ? 0 : window;
    c.set_layers(std::move(c.specs));
  }
  if (arch.norms_turned) c.norms_turned = flag_at(json, "use_qk_norm", place, true);
  if (arch.temperature.scale > 0) c.temperature = read_temperature(json, place, arch.temperature);
  read_limits(json, place, c);
  read_gate_sparsity(json, place, c);
  read_ngrams(json, whole, place, c);
  check_sparse_layers(json, place, c);
  check_router(c.router, place);
  check_rope(c.rope, place);
  return c;
}

}  // namespace

}  // namespace bantam::inline v0::detail

namespace bantam::inline v0 {

ModelConfig parse_hf_config(std::string_view text, const std::string& place) {
  return detail::from_json(Json::parse(text, place), place);
}

ModelConfig read_hf_config(const std::filesystem::path& file) {
  return parse_hf_config(detail::read_config_text(file), file.string());
}

}  // namespace bantam::inline v0
