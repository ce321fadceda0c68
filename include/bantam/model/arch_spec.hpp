// An architecture as data: where its numbers and tensors stand in each container, and which choices it makes.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "bantam/nn/blocks/attention_kinds.hpp"
#include "bantam/nn/blocks/role.hpp"
#include "bantam/nn/blocks/router.hpp"
#include "bantam/nn/ops.hpp"
#include "bantam/nn/relative_bias.hpp"

namespace bantam::inline v0 {

enum class Norm : std::uint8_t { rms, layer };
/// Between the two layers of a classifier.
enum class ClassActivation : std::uint8_t { tanh, relu, gelu };

/// The block of a layer's first half.
enum class MixerKind : std::uint8_t {
  attention,
  latent_attention,
  gated_delta,
  channel_delta,  ///< a delta net whose decay is of each key channel (Kimi Linear, Ling 3)
  state_space,
  short_convolution,
  attention_beside_space,  ///< attention and a state space read the same, and add up (Falcon-H1)
  none,  ///< the layer is its second half alone (Nemotron-H)
};
/// Whether it keeps keys and values of a sequence.
[[nodiscard]] constexpr bool attends(MixerKind kind) noexcept {
  return kind == MixerKind::attention || kind == MixerKind::latent_attention || kind == MixerKind::attention_beside_space;
}
/// Whether it keeps a recurrent state.
[[nodiscard]] constexpr bool recurs(MixerKind kind) noexcept { return kind == MixerKind::attention_beside_space || (kind != MixerKind::none && !attends(kind)); }
/// Whether a state space is in it.
[[nodiscard]] constexpr bool has_space(MixerKind kind) noexcept { return kind == MixerKind::state_space || kind == MixerKind::attention_beside_space; }

/// What a layer's second half is.
enum class FeedForward : std::uint8_t {
  any,     ///< an MLP or experts, as other numbers say
  dense,
  sparse,
  none,    ///< the layer is its first half alone
};
/// The halves of a layer.
struct LayerKind {
  MixerKind mixer = MixerKind::attention;
  FeedForward feed_forward = FeedForward::any;
};

/// Which of a model's weights: `layer` is -1 for those of none, `expert` for those of no expert.
struct TensorId {
  Role role{};
  std::int64_t layer = -1;
  std::int64_t expert = -1;
  TensorId() = default;
  constexpr TensorId(Role of_role, std::int64_t of_layer = -1, std::int64_t of_expert = -1) noexcept
      : role(of_role), layer(of_layer), expert(of_expert) {}
  auto operator<=>(const TensorId&) const = default;
};

/// A number of ModelConfig.
enum class Field : std::uint8_t {
  dim,
  layers,     ///< of the encoder, where decoder_layers follow it
  decoder_layers,  ///< as many, where nothing else is said
  decoder_heads,   ///< of these: as the encoder's
  decoder_ffn,
  decoder_start,   ///< the token that a decoder reads first
  forced_start,    ///< and the next, where what it writes always begins so
  heads,
  kv_heads,
  head_dim,   ///< whose key is ours where Hugging Face's class derives it: a model may have lost heads
  value_dim,  ///< of values and heads' outputs; head_dim where nothing else is said
  full_head_dim,   ///< of layers without a window, where they differ from the others in it; of their values, too
  full_value_dim,
  full_kv_heads,
  shared_layers,   ///< so many of the last read the keys and values of the last layer of their kind before them
  per_layer_dim,   ///< of per-layer embeddings; 0: none
  per_layer_vocab,  ///< tokens that have one; all where nothing else is said
  streams,         ///< ModelConfig::streams
  stream_rank,
  active_stream,
  laurel_rank,
  ffn,
  ffn_factor,  ///< the same in widths of the residual stream
  vocab,
  context,
  norm_eps,
  rope_base,
  local_rope_base,  ///< of layers with a window
  rope_dim,
  local_rope_dim,   ///< of layers with a window, in GGUF files
  window,
  q_rank,            ///< of latent attention's queries
  kv_rank,           ///< of its latent vector
  nope_dim,          ///< of its queries, what is not rotated: head_dim is this and rope_dim
  latent_heads,      ///< of its cache: 1
  latent_key_dim,    ///< GGUF's key_length of absorbed files: kv_rank + rope_dim
  latent_value_dim,  ///< and value_length: kv_rank
  index_heads,       ///< of an indexer, which chooses what queries see
  index_dim,
  index_used,        ///< tokens that a query sees at most: IndexOptions::used
  index_block,       ///< IndexOptions::block, which GGUF files list by layer
  alibi,     ///< what the exponents of slopes come to (nn::alibi_slopes)
  bias_buckets,   ///< nn::RelativeBiasOptions
  bias_distance,
  qkv_clip,  ///< queries, keys and values are kept from its negative to it
  attention_softcap,
  final_softcap,
  embedding_scale,
  residual_scale,
  depth_scale,      ///< the same times sqrt(layers) (MiniCPM)
  attention_scale,  ///< of scores, in the place of 1 / sqrt(head_dim)
  attention_scalar,  ///< what the scale of scores is 1 / sqrt() of
  temperature_scale,  ///< of queries: nn::Temperature
  logit_scale,      ///< logits are divided by it
  logit_factor,     ///< or multiplied
  base_dim,         ///< the same times dim (MiniCPM)
  attention_in_scale,  ///< ModelScales' of what is inside of blocks
  attention_out_scale,
  key_scale,
  value_scale,
  space_in_scale,
  space_out_scale,
  space_gate_scale,
  space_value_scale,
  space_key_scale,
  space_query_scale,
  space_step_scale,
  gate_scale,
  down_scale,
  convolution_taps,     ///< of recurrent layers
  recurrent_key_heads,  ///< of a gated delta net; the groups of a state space
  recurrent_key_dim,    ///< of its keys; of a state space the state's
  recurrent_heads,      ///< of values
  recurrent_value_dim,
  recurrent_inner,      ///< both of them multiplied
  decay_bound,          ///< ModelConfig::decay_bound
  attention_step,       ///< each layer that is a multiple of it, counted from 1, attends; the others recur
  experts,       ///< of a sparse layer
  experts_used,  ///< by a token
  expert_ffn,
  expert_latent,   ///< what experts read and make, where that is a space of their own (Nemotron 3 Super)
  shared_ffn,      ///< width of the shared expert
  shared_experts,  ///< the same in widths of the others
  dense_layers,    ///< before the first sparse one
  sparse_step,     ///< from there on each that is a multiple of it, counted from 1, is sparse
  drafting_layers, ///< behind the others, to guess several tokens at once. GGUF's number of layers has them in it
  router_groups,
  router_groups_used,
  router_scale,
  router_jitter,   ///< nn::RouterOptions::jitter
};

/// Where a number stands: its key in config.json, a member of a member, or of a list by its number, after a dot, and in GGUF after the
/// architecture's name. Empty: not in this container.
struct ConfigKey {
  Field field{};
  std::string_view hf{};
  std::string_view gguf{};
  double otherwise = 0;  ///< what holds where config.json does not say, if it is not 0; of scales, where GGUF files do not, either
  std::string_view other = {};  ///< what some configs call it, older or newer ones
};

/// What config.json says of an architecture in the same words for all of its models, a truth value or a number. One that says otherwise is
/// of another architecture of the class, or of none.
struct ConfigChoice {
  std::string_view key;  ///< as ConfigKey's
  double value = 0;      ///< 0 and 1 are false and true
  double otherwise = 0;  ///< what holds where it is absent or null
  bool is_number = false;
  std::string_view text = {};  ///< a text in the place of `value`; `otherwise`: 1 where its absence means it
};

/// Whether a checkpoint may lack a tensor.
enum class Presence : std::uint8_t { required, optional };
/// Layers that have a tensor under a name: all of them; with experts or without; of the encoder, or of the decoder behind it.
enum class Layers : std::uint8_t { all, dense, sparse, encoder, decoder };

/// A tensor that has those of all experts, and perhaps several roles of each side by side: (experts, roles' rows, columns). Of heads'
/// matrices: (heads, roles' rows, columns), each role as the model has it or transposed. Of a layer's own matrices and biases the rows of
/// several roles, of as many rows as each has.
struct Fused {
  std::string_view name = {};  ///< in folders; empty: there is none. {} is the number of the layer
  int part = 0, parts = 1;     ///< which of the roles
  bool interleaved = false;    ///< row r of the parts are neighbors; else the parts lie one behind the other
  bool transposed = false;     ///< (experts, columns, roles' rows), where it has floats
  std::string_view gguf = {};  ///< in older GGUF files; of gate and up that have the same name there, in all
  bool by_groups = false;      ///< of q, k and v: the rows of a key-value head and its queries follow each other, head by head
  bool by_key_heads = false;   ///< of a delta net's inputs: the rows of a key head and its value heads, in GGUF files, too (Qwen3-Next)
  std::string_view pieces = {};  ///< in folders, of a matrix of each residual stream but the first, or of equal parts of a table: {e} is its number, from 0 on
  bool only_read = false;      ///< some folders have it; those that are written have tensors of `hf`
};

/// Where a tensor stands. {} is the number of the layer, {e} of the expert; without {e} those of all experts are stacked in one tensor.
struct TensorKey {
  Role role{};
  std::string_view hf{};  ///< empty: not in this container
  std::string_view gguf{};
  Presence presence = Presence::required;
  Layers layers = Layers::all;
  bool is_row = false;  ///< a vector that Hugging Face has as a matrix of one row
  Fused fused = {};     ///< what folders may have in place of `hf`
  bool is_scalar = false;  ///< a number that Hugging Face has without axes
  bool is_listed = false;  ///< a number that GGUF files have of all layers in a list of metadata: the name less ".{}"
};

/// What models of any architecture may have behind them: of decoders a classifier (...ForSequenceClassification), and what sentence-transformers
/// has behind pooling.
inline constexpr TensorKey tensors_behind[] = {
    {Role::class_head, "score.weight", "cls.output.weight"},
    {Role::pooled_dense, "2_Dense.linear.weight", "dense_2.weight"},
    {Role::pooled_dense_bias, "2_Dense.linear.bias", ""},
    {Role::pooled_dense_2, "3_Dense.linear.weight", "dense_3.weight"},
    {Role::pooled_dense_2_bias, "3_Dense.linear.bias", ""},
};

/// Two tables as one.
template <class Key, std::size_t n, std::size_t m>
[[nodiscard]] constexpr std::array<Key, n + m> joined(const std::array<Key, n>& first, const Key (&second)[m]) {
  std::array<Key, n + m> all{};
  std::copy(std::begin(second), std::end(second), std::copy(first.begin(), first.end(), all.begin()));
  return all;
}
template <class Key, std::size_t n, std::size_t m>
[[nodiscard]] constexpr std::array<Key, n + m> joined(const Key (&first)[n], const Key (&second)[m]) {
  return joined(std::to_array(first), second);
}
template <class Key, std::size_t n, std::size_t m>
[[nodiscard]] constexpr std::array<Key, n + m> joined(const Key (&first)[n], const std::array<Key, m>& second) {
  std::array<Key, n + m> all{};
  std::copy(second.begin(), second.end(), std::copy(std::begin(first), std::end(first), all.begin()));
  return all;
}

/// A table without the keys of some roles, one of each.
template <class Key, std::size_t n, class... Roles>
[[nodiscard]] constexpr std::array<Key, n - sizeof...(Roles)> without(const Key (&keys)[n], Roles... roles) {
  std::array<Key, n - sizeof...(Roles)> rest{};
  std::copy_if(std::begin(keys), std::end(keys), rest.begin(), [&](const Key& key) { return ((key.role != roles) && ...); });
  return rest;
}

/// A name of a TensorKey with numbers in the places of {} and {e}.
[[nodiscard]] inline std::string name_from(std::string_view pattern, const TensorId& id) {
  std::string name(pattern);
  const auto put = [&](std::string_view place, std::int64_t number) {
    if (const auto at = name.find(place); at != std::string::npos) name.replace(at, place.size(), std::to_string(number));
  };
  put("{}", id.layer);
  put("{e}", id.expert);
  return name;
}
/// Whether a name of an expert's tensor is that of all of them.
[[nodiscard]] constexpr bool is_stacked(std::string_view pattern) noexcept { return pattern.find("{e}") == pattern.npos; }

/// Whether a role is the weight of an RMS norm of the residual stream, or of queries and keys.
[[nodiscard]] constexpr bool is_norm(Role role) noexcept {
  switch (role) {
    case Role::embedding_norm:
    case Role::final_norm:
    case Role::encoder_norm:
    case Role::encoder_embedding_norm:
    case Role::cross_norm:
    case Role::cross_out_norm:
    case Role::attention_norm:
    case Role::attention_out_norm:
    case Role::q_norm:
    case Role::k_norm:
    case Role::ffn_norm:
    case Role::ffn_out_norm:
    case Role::mlp_out_norm:
    case Role::expert_norm:
    case Role::expert_out_norm:
    case Role::per_layer_norm:
    case Role::head_streams_norm:
    case Role::mixer_streams_norm:
    case Role::ffn_streams_norm:
    case Role::ngram_key_norm:
    case Role::ngram_query_norm:
    case Role::ngram_value_norm:
    case Role::index_q_norm:
    case Role::draft_embedding_norm:
    case Role::draft_state_norm:
    case Role::draft_final_norm: return true;
    default: return false;
  }
}

/// One architecture. Constant data only: forward() reads it, nothing switches on its name.
struct ArchSpec {
  std::string_view name;      ///< "llama": config.json's model_type
  std::string_view hf_class;  ///< "LlamaForCausalLM"
  std::string_view older_class = {};  ///< of the same models' older configs
  std::span<const std::string_view> same_classes = {};  ///< of other families that compute the same, under the same names
  std::string_view paper;
  std::string_view gguf = {};  ///< GGUF's general.architecture; empty: the name. Several that share it differ in whether they have experts
  std::string_view gguf_mark = {};  ///< a tensor of its GGUF files that those of others with the name lack
  Norm norm = Norm::rms;
  bool parallel = false;  ///< attention and MLP read the same state (GPT-J); one norm for both where there is no ffn_norm
  bool causal = true;     ///< a token sees those before it; else all tokens of a sequence see each other, and it is read at once (BERT)
  ClassActivation class_activation = ClassActivation::tanh;  ///< of a classifier of two layers
  bool encodes = false;   ///< the first layers are an encoder, which reads a text at once; those behind it read what it made, too (T5, BART)
  bool norms_sums = false;  ///< norms behind blocks are taken of the residual stream with what was added (BERT), not of that alone
  bool first_unnormed = false;  ///< the first layer has no norm before attention: that of the embedding stands there (ModernBERT)
  bool latent = false;    ///< attention is latent attention
  bool may_share_choices = false;  ///< layers may see what the indexer of a layer before them chose
  nn::RopePairs index_pairs = nn::RopePairs::half;  ///< of the indexer, where there is Field::index_used
  MixerKind recurrent = MixerKind::none;  ///< what layers that do not attend have in its place
  std::int64_t attention_step = 0;        ///< Field::attention_step, where the config does not say; 0: it names the kind of each layer
  bool single_halves = false;  ///< each layer is one half: a mixer, an MLP, or experts
  bool feeds = true;          ///< layers have a second half
  bool drops_halves = false;  ///< a layer may lack attention, the MLP or both: config.json has block_configs (src/model/block_configs.hpp), GGUF files lists with 0
  bool zero_heads = false;    ///< GGUF files say which layers attend by how many key-value heads they have
  bool single_group = false;  ///< state spaces have one group, over which their norm is taken; several are refused
  std::string_view gguf_attending = {};  ///< GGUF's architecture where all layers attend and are turned by rope; empty: the same
  bool tiled_values = false;  ///< value head i of a delta net goes with key head i mod key_heads; folders have those of a key head side by side
  nn::OutputGate output_gate = nn::OutputGate::none;
  std::string_view delta_gate_key = {};  ///< config.json's word for what gates a delta net's outputs: sigmoid, as GGUF files mean, or silu; empty: silu
  bool plain_norms = false;   ///< norms before blocks and the last are layer norms without weights (OLMo 1)
  nn::HeadNorm head_norm = nn::HeadNorm::each;
  bool head_layer_norms = false;  ///< norms of q and k are layer norms
  bool rope_sections = false;  ///< GGUF files say which pairs of rope turn by which axis of an image; all by the same in a text
  nn::RouterOptions router = {};  ///< what holds when the config does not say
  nn::RopePairs pairs = nn::RopePairs::half;  ///< that rope turns, with the rows of q and k as Hugging Face has them
  /// The same in GGUF files. Where the two differ rows of q and k lie in another order there.
  nn::RopePairs gguf_pairs = pairs;
  std::int64_t position_offset = 0;  ///< rows of learned positions before that of a text's first token (OPT, RoBERTa)
  bool pads_positions = false;       ///< folders count these rows as positions of texts, and GGUF files lack them (RoBERTa)
  double alibi = 0;           ///< Field::alibi, where no file says it; 0: scores do not shrink with distance
  nn::RelativeBiasOptions relative_bias = {};  ///< of scores, by distance, where no file says it; of no buckets: there is none
  bool shares_bias = false;   ///< the first layer of an encoder or a decoder has it, for all of them (T5)
  bool scales_tied_logits = false;  ///< by 1 / sqrt(dim) where the head is the embedding (T5 1.0)
  bool scales_alibi = false;  ///< its slopes are scaled as scores are (Falcon)
  double default_norm_eps = 1e-6;
  double default_rope_base = 10000;
  double default_rope_part = 1;  ///< of each head that is rotated
  ops::Gate gate = ops::Gate::silu;  ///< when the config does not say, or calls it silu
  std::string_view activation_key = "hidden_act";  ///< where config.json says it
  std::string_view gguf_activation_key = {};       ///< and where GGUF files do, in the same words, those without it having silu; empty: they do not say
  std::string_view activation_name = {};           ///< what it calls `gate` there, where that is not the usual name (Nomic)
  std::int64_t full_attention_step = 0;  ///< where a config has a window alone, each layer that is a multiple of it, counted from 1, has none
  bool dense_see_all = false;  ///< dense layers before sparse ones have no window, and are turned by rope; full_attention_step counts those behind them
  bool asks_for_windows = false;  ///< a window counts where config.json says use_sliding_window, not where it says a size alone (Qwen2)
  bool full_layers_lead = false;  ///< full_attention_step counts from 0: the first layer has no window
  std::int64_t no_rope_step = 0;  ///< each layer that is a multiple of it, counted from 1, is not turned by rope
  std::string_view rope_layers_key = "no_rope_layers";  ///< config.json's list of the layers that rope turns, 1 for those
  std::string_view window_layers_key = {};  ///< and of those that have the window; empty: it has none
  std::string_view local_layers_key = {};   ///< the same as words, global and local, in the place of layer_types; empty: it has none
  std::string_view sparse_layers_key = {};  ///< of those that have experts, by number; empty: it has none
  std::string_view sparse_flags_key = {};   ///< the same as a flag for each layer; empty: it has none
  bool names_feed_forwards = false;         ///< config.json may name the kind of each layer's second half (mlp_layer_types)
  std::string_view heads_key = {};          ///< config.json's list of query heads by layer; empty: all layers have as many for a key-value head
  std::string_view softmax_key = {};        ///< whether the chosen experts count by softmax, else by sigmoid; empty: files do not say
  std::string_view score_key = {};          ///< the same as a word, softmax or sigmoid
  std::span<const std::string_view> limit_keys = {};  ///< and its lists of what gates of each layer stay below (nn::MlpWeights::limit): of experts, of MLPs (Step-3.5)
  std::string_view sparsity_key = {};       ///< and its list of the shares of gates that count as 0, GGUF's of deviations (nn::MlpWeights::gate_cutoff; Gemma 3n)
  std::string_view group_key = {};          ///< and how many layers a group has, the last of which attends, as do those behind the last whole group (Ling 3)
  std::string_view rope_bases_key = {};     ///< config.json's list of each layer's base of rope, 0 where it does not turn; GGUF files flag these layers
  bool says_rope = false;      ///< files say whether rope turns layers at all: position_embedding_type, and GGUF's rope.scaling.finetuned
  bool says_parallel = false;  ///< files say which, as use_parallel_residual; the other is refused
  nn::LayerRope window_rope = nn::LayerRope::model;  ///< of layers with a window
  nn::LayerRope full_rope = nn::LayerRope::model;    ///< of the others in a model that has windows
  bool window_sinks = false;  ///< layers with a window have sinks, the others none
  std::int64_t window_kv_factor = 1;  ///< key-value heads of layers with a window, in those of the others, where config.json does not say
  double default_local_rope_base = 0;                ///< of LayerRope::local; 0: that of the model
  float norm_offset = 0;         ///< what weights of RMS norms are stored less in folders
  bool scales_embedding = false;  ///< by sqrt(dim)
  bool step_words = false;        ///< config.json says layers, ropes and experts in words of its own: src/model/step_config.hpp
  bool halves_full_rope = false;  ///< GGUF files say the rope of layers with a window, and in the others half as much of a head turns
  bool trims_ffn = false;         ///< config.json may say a width of which MLPs have two thirds, in whole blocks (LFM2)
  bool folds_scales = false;      ///< GGUF files have all scales in weights (Falcon-H1)
  double attention_scale = 0;     ///< of scores, where no file says it; 0: 1 / sqrt(head_dim)
  nn::Temperature temperature = {};  ///< where files may turn it off, and have its numbers as attn_scale and floor_scale
  bool norms_turned = false;      ///< q and k behind rope, by RMS norms of each head without weights; files may say that they are not
  bool chunks_windows = false;    ///< windows are chunks of so many tokens
  bool averages_shared = false;   ///< a sparse layer adds the mean of its shared expert and the others, not the sum
  bool routes_inputs = false;     ///< routers read what their layer reads, before its norm
  bool norms_values = false;      ///< by an RMS norm of each head, without weights
  bool may_share_values = false;  ///< layers without a window may have keys that are their values, too
  bool proportional_rope = false;  ///< of layers without a window: some pairs turn, of a rope over the whole head, as rope_freqs.weight of GGUF files tells
  bool lists_shared_keys = false;  ///< GGUF files have keys and values of layers that read others', too, which nobody reads
  bool flags_windows = false;      ///< GGUF files say of each layer whether it has a window
  /// GGUF files name no scale of scores: of so many layers it is 1 / sqrt(dim / heads); 0: always 1 / sqrt(head_dim).
  std::int64_t layers_scaled_by_dim = 0;
  bool default_tied = false;  ///< when config.json does not say
  std::span<const ConfigChoice> choices = {};
  std::span<const ConfigKey> config;
  std::span<const TensorKey> tensors;
  /// What folders call a drafting layer's tensors by in the place of the other layers' beginning, up to the number and its point; empty: as
  /// theirs, by the number that follows them.
  std::string_view drafting_name = {};
  std::span<const TensorKey> more_tensors = {};  ///< what it has beyond a family's common ones, and names in the place of theirs
  std::span<const ConfigKey> more_config = {};  ///< the same of numbers
  /// Other classes of the same model in folders: with a classifier behind it, or with heads of its training, which are not read.
  std::span<const std::string_view> more_classes = {};
  std::string_view prefix = {};                       ///< what these begin the names of tensors with ("bert.")
  std::span<const std::string_view> leftovers = {};   ///< what names of tensors that are not read begin with

  /// Where a role's tensor stands in a layer with or without experts, of an encoder or not; null where the architecture has none.
  [[nodiscard]] constexpr const TensorKey* find(Role role, bool sparse = false, bool of_encoder = false) const noexcept {
    for (const auto& list : {more_tensors, tensors, behind()}) {
      for (const TensorKey& key : list) {
        const bool other = key.layers == (sparse ? Layers::dense : Layers::sparse) || key.layers == (of_encoder ? Layers::decoder : Layers::encoder);
        if (key.role == role && !other) return &key;
      }
    }
    return nullptr;
  }
  /// Where a number stands; null where no container has it.
  [[nodiscard]] constexpr const ConfigKey* find(Field field) const noexcept {
    for (const auto& list : {more_config, config}) {
      for (const ConfigKey& key : list) {
        if (key.field == field) return &key;
      }
    }
    return nullptr;
  }
  [[nodiscard]] constexpr std::string_view gguf_name() const noexcept { return gguf.empty() ? name : gguf; }
  /// Whether each block has a norm of its own before it and none behind it, and reads what the one before has added, and nothing else.
  [[nodiscard]] constexpr bool norms_before_blocks() const noexcept {
    return !parallel && !encodes && recurrent != MixerKind::attention_beside_space && find(Role::attention_norm) != nullptr && find(Role::ffn_norm) != nullptr && find(Role::attention_out_norm) == nullptr && find(Role::ffn_out_norm) == nullptr;
  }
  [[nodiscard]] constexpr bool limits_gates() const noexcept { return !limit_keys.empty(); }
  [[nodiscard]] constexpr bool has_experts() const noexcept { return find(Field::experts) != nullptr; }
  /// Whether positions are rows of a table, which no sequence may be longer than.
  [[nodiscard]] constexpr bool learns_positions() const noexcept { return find(Role::position_embedding) != nullptr; }
  /// Whether the last layers may read the keys and values of those before.
  [[nodiscard]] constexpr bool shares_keys() const noexcept { return find(Field::shared_layers) != nullptr; }
  /// Whether layers without a window have other key-value heads than those with one.
  [[nodiscard]] constexpr bool full_layers_differ() const noexcept { return find(Field::full_kv_heads) != nullptr; }
  /// Whether these heads have another size, too.
  [[nodiscard]] constexpr bool full_heads_differ() const noexcept { return find(Field::full_head_dim) != nullptr; }
  /// Whether layers may differ in how many query heads a key-value head has.
  [[nodiscard]] constexpr bool groups_differ() const noexcept { return full_layers_differ() || drops_halves || !heads_key.empty(); }
  /// What Hugging Face's classes of a decoder begin with ("Llama"); empty: it is none.
  [[nodiscard]] constexpr std::string_view class_stem() const noexcept {
    for (const std::string_view ending : {std::string_view("ForCausalLM"), std::string_view("LMHeadModel")}) {
      if (causal && !encodes && hf_class.ends_with(ending)) return hf_class.substr(0, hf_class.size() - ending.size());
    }
    return {};
  }
  /// The class of the same model with something else in the place of its head; empty: there is none.
  [[nodiscard]] std::string class_with(std::string_view ending) const {
    for (const std::string_view name : more_classes) {
      if (name.ends_with(ending)) return std::string(name);
    }
    return class_stem().empty() ? std::string() : std::string(class_stem()).append(ending);
  }
  /// With a classifier, and with nothing.
  [[nodiscard]] std::string class_of_classifier() const { return class_with("ForSequenceClassification"); }
  [[nodiscard]] std::string class_without_head() const { return class_with("Model"); }
  /// Tensors behind the model, of those that any may have.
  [[nodiscard]] constexpr std::span<const TensorKey> behind() const noexcept { return std::span(tensors_behind).subspan(class_stem().empty() ? 1 : 0); }
  /// Whether files may have a layer that drafts.
  [[nodiscard]] constexpr bool may_draft() const noexcept { return find(Role::draft_projection) != nullptr; }
};

}  // namespace bantam::inline v0
