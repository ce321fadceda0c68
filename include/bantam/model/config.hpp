// The numbers of one model.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bantam/model/arch_spec.hpp"
#include "bantam/model/pooling.hpp"
#include "bantam/nn/kv_cache.hpp"
#include "bantam/nn/ngram.hpp"
#include "bantam/nn/recurrent_state.hpp"

namespace bantam::inline v0 {

class GgufFile;
class GgufWriter;

/// One layer, as data: what may differ from layer to layer.
struct LayerSpec {
  std::int64_t kv_heads = 0;
  std::int64_t ffn = 0;         ///< of the MLP; of the shared expert where there are others; 0: none
  std::int64_t window = 0;      ///< sliding window in tokens; 0: it sees everything
  std::int64_t experts = 0;     ///< 0: a dense layer
  std::int64_t expert_ffn = 0;
  nn::LayerRope rope = nn::LayerRope::model;
  MixerKind mixer = MixerKind::attention;
  std::int64_t group = 0;     ///< query heads that share a key-value head; 0: the model's
  std::int64_t head_dim = 0;  ///< of queries, keys and values; 0: the model's
  std::int64_t kv_layer = -1;  ///< the layer before it whose keys and values it reads; -1: it has its own
  bool encodes = false;        ///< of an encoder before a decoder
  bool shares_choice = false;  ///< it sees what the last indexer before it chose, and has none
  bool shares_values = false;  ///< keys are values, too, before their norm and rope
  bool reads_ngrams = false;   ///< embeddings of n-grams, before its first half (nn::NgramEmbedding)
  std::optional<float> gate_cutoff = {};  ///< nn::MlpWeights::gate_cutoff
  float mlp_limit = 0, expert_limit = 0;  ///< nn::MlpWeights::limit of the MLP, or the shared expert, and of experts
  [[nodiscard]] bool has_feed_forward() const noexcept { return ffn > 0 || experts > 0; }
  [[nodiscard]] bool is_sparse() const noexcept { return experts > 0; }
  bool operator==(const LayerSpec&) const = default;
};

/// Numbers that a few models multiply by.
struct ModelScales {
  double embedding = 1;
  double residual = 1;   ///< what a branch adds
  double attention = 0;  ///< scores; 0: 1 / sqrt(head_dim)
  double logits = 1;
  double attention_softcap = 0, final_softcap = 0;  ///< cap tanh(x / cap); 0: none (arXiv:2408.00118, 2.3)
  // Of Falcon-H1 (muP, arXiv:2507.22448): what blocks read and make, and some of what is between.
  double attention_in = 1, attention_out = 1, keys = 1;
  double space_in = 1, space_out = 1;
  std::array<double, 5> space = {1, 1, 1, 1, 1};  ///< the output gate z; x, B and C; dt
  double gate = 1, down = 1;
  double values = 1;  ///< of attention (MiMo-V2)
  bool operator==(const ModelScales&) const = default;
};

/// The indexer of sparse attention (DeepSeek V3.2, GLM-5, Qwen4): nn::IndexerOptions.
struct IndexOptions {
  std::int64_t heads = 0, dim = 0;
  std::int64_t used = 0;   ///< tokens that a query sees; 0: there is none
  std::int64_t block = 1;  ///< neighboring tokens that are chosen together
  bool operator==(const IndexOptions&) const = default;
};

/// Layers behind pooling: EmbeddingGemma has two.
inline constexpr std::size_t most_pooled_layers = 2;
/// A layer behind pooling: y = act(W x + b), of an embedding (sentence-transformers' Dense).
struct PooledLayer {
  std::int64_t outputs = 0;
  bool has_bias = false;
  bool is_tanh = false;  ///< else nothing follows
  bool operator==(const PooledLayer&) const = default;
};

/// What the numbers of a classifier's labels mean.
enum class LabelUse : std::uint8_t {
  one_of,   ///< a text has one of the labels: their probabilities are the softmax, of a single one the sigmoid
  any_of,   ///< each label or not: the sigmoid
  numbers,  ///< what they are (regression)
};

/// Sizes and constants of a model, checked: every field is in range and consistent with the others.
struct ModelConfig {
  const ArchSpec* arch = nullptr;
  std::int64_t dim = 0;
  std::int64_t layers = 0;
  std::int64_t encoder_layers = 0;  ///< the first of them, before a decoder's
  std::int64_t heads = 0;     ///< of the layer that has most of them, as the next, ffn, window and experts
  std::int64_t kv_heads = 0;  ///< each is shared by heads / kv_heads query heads, in every layer that says nothing else
  std::int64_t head_dim = 0;   ///< of queries and keys; of latent attention before queries are absorbed; of layers that say nothing else
  std::int64_t value_dim = 0;  ///< of values and heads' outputs
  std::int64_t q_rank = 0, kv_rank = 0;  ///< of latent attention; q_rank 0: queries come from one matrix
  IndexOptions index;
  nn::RecurrentLayer recurrent;  ///< of layers that keep a recurrent state
  bool sigmoid_delta = false;    ///< the gate of a gated delta net's outputs, in the place of silu
  double decay_bound = 0;  ///< what log decays of channels stay above (nn::ChannelDelta); 0: nothing
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t context = 0;  ///< tokens the model was made for
  double norm_eps = 0;
  nn::RopeOptions rope;
  std::optional<nn::RopeOptions> local_rope;  ///< of layers that have another
  bool has_rope = true;  ///< false: a file says that rope turns no layer
  nn::Temperature temperature;
  bool norms_turned = false;  ///< q and k behind rope, by RMS norms without weights
  ModelScales scales;
  std::int64_t window = 0;
  double alibi = 0;     ///< what the exponents of slopes come to (nn::alibi_slopes); 0: scores do not shrink with distance
  nn::RelativeBiasOptions relative_bias;  ///< of scores, by distance
  std::int64_t decoder_start = -1;  ///< the token that a decoder behind an encoder reads first
  std::int64_t forced_start = -1;   ///< and the one that it reads next, whatever it would write; -1: none
  double qkv_clip = 0;  ///< queries, keys and values are kept from its negative to it; 0: they stay
  nn::RouterOptions router;  ///< of sparse layers
  std::int64_t expert_latent = 0;  ///< what experts read and make, in the place of dim; 0: dim
  ops::Gate gate = ops::Gate::silu;
  bool tied = false;  ///< the head is the embedding
  bool scales_tied_logits = true;  ///< false: not even where an architecture does; Checkpoint then has a head of its own
  std::int64_t per_layer_dim = 0;  ///< of per-layer embeddings; 0: none
  std::int64_t per_layer_vocab = 0;  ///< tokens that have one, the first; 0: all
  std::int64_t streams = 0, active_stream = 0;  ///< residual streams, and of nn::AltUp which of them layers run over; 0: the one that others have
  std::int64_t stream_rank = 0;  ///< of the gates through which blocks read them (nn::HyperConnections); 0: nn::AltUp
  nn::NgramOptions ngrams;  ///< of a layer that reads embeddings of n-grams
  std::int64_t laurel_rank = 0;  ///< of a residual branch beside attention (nn::Laurel); 0: there is none
  std::int64_t token_types = 0;    ///< that have one
  std::int64_t labels = 0;         ///< that a classifier makes a number for; 0: there is none
  LabelUse label_use = LabelUse::one_of;
  std::vector<std::string> label_names;  ///< of the first of them, as the file says
  bool has_head = true;            ///< that makes logits of the next token
  std::optional<Pooling> pooling;  ///< what the file says stands for a text, for its embedding or the classifier
  std::optional<bool> normalizes;  ///< embeddings to length 1, as the file says
  std::vector<PooledLayer> pooled_layers;  ///< up to most_pooled_layers, between pooling and that
  std::int64_t drafting_layers = 0;  ///< of the file, behind the others
  std::vector<LayerSpec> specs;  ///< of each layer
  /// Of the layer that guesses the token after the next one (nn::DraftingWeights), where the file has it: layer number `layers`, which
  /// takes no part in passes. At most one; files with more are read without any.
  std::vector<LayerSpec> drafting;

  [[nodiscard]] const LayerSpec& layer(std::int64_t i) const noexcept {
    return is_drafting(i) ? drafting[static_cast<std::size_t>(i - layers)] : specs[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] bool is_drafting(std::int64_t i) const noexcept { return i >= layers; }
  /// A model of the layer that drafts alone, which reads embeddings in the place of tokens.
  [[nodiscard]] ModelConfig drafter() const;
  /// The layer that such a file's drafting layer is like: the last that attends and feeds forward. None: the architecture has no such layers.
  [[nodiscard]] std::vector<LayerSpec> drafting_like() const;
  [[nodiscard]] MixerKind mixer_of(std::int64_t i) const noexcept {
    return layer(i).mixer == MixerKind::attention && is_latent() ? MixerKind::latent_attention : layer(i).mixer;
  }
  [[nodiscard]] std::int64_t kv_heads_of(std::int64_t i) const noexcept { return layer(i).kv_heads; }
  /// Query heads that share a key-value head.
  [[nodiscard]] std::int64_t group_of(const LayerSpec& spec) const noexcept { return spec.group > 0 ? spec.group : heads / kv_heads; }
  [[nodiscard]] std::int64_t head_dim_of(const LayerSpec& spec) const noexcept { return spec.head_dim > 0 ? spec.head_dim : head_dim; }
  [[nodiscard]] std::int64_t value_dim_of(const LayerSpec& spec) const noexcept { return spec.head_dim > 0 ? spec.head_dim : value_dim; }
  [[nodiscard]] std::int64_t heads_of(std::int64_t i) const noexcept { return layer(i).kv_heads * group_of(layer(i)); }
  [[nodiscard]] std::int64_t head_dim_of(std::int64_t i) const noexcept { return head_dim_of(layer(i)); }
  /// Where in a sequence's state a layer finds keys and values.
  [[nodiscard]] std::int64_t kv_place(std::int64_t i) const noexcept { return sees_all(i) ? 0 : layer(i).kv_layer >= 0 ? layer(i).kv_layer : i; }
  /// Whether a decoder's layers read what an encoder's have made of another text.
  [[nodiscard]] bool has_source() const noexcept { return encoder_layers > 0; }
  /// Whether in a layer the tokens of a text all see each other.
  [[nodiscard]] bool sees_all(std::int64_t i) const noexcept { return !arch->causal || layer(i).encodes; }
  /// Where the architecture's files have a role's tensor in a layer, -1: of none; null: nowhere.
  [[nodiscard]] const TensorKey* key_of(Role role, std::int64_t i) const noexcept {
    return i < 0 ? arch->find(role) : arch->find(role, layer(i).is_sparse(), layer(i).encodes);
  }
  /// What logits are multiplied by.
  [[nodiscard]] double logit_scale() const noexcept;
  /// Whether a later layer reads the keys and values of this one.
  [[nodiscard]] bool lends_keys(std::int64_t i) const noexcept;
  /// The layer whose indexer chooses what layer i sees, and whether layer i has one that chooses for later layers, too.
  [[nodiscard]] std::int64_t choice_place(std::int64_t i) const noexcept;
  [[nodiscard]] bool lends_choice(std::int64_t i) const noexcept { return i + 1 < layers && layer(i + 1).shares_choice && !layer(i).shares_choice; }
  /// Whether the attention of two layers differs in nothing but how many key-value heads there are.
  [[nodiscard]] bool attends_alike(std::int64_t i, std::int64_t j) const noexcept {
    return group_of(layer(i)) == group_of(layer(j)) && head_dim_of(i) == head_dim_of(j) && sees_all(i) == sees_all(j);
  }
  [[nodiscard]] std::int64_t ffn_of(std::int64_t i) const noexcept { return layer(i).ffn; }
  [[nodiscard]] std::int64_t window_of(std::int64_t i) const noexcept { return layer(i).window; }
  /// Layers before the first sparse one; all of them in a model without experts.
  [[nodiscard]] std::int64_t dense_layers() const noexcept;
  [[nodiscard]] bool has_experts() const noexcept { return router.experts > 0; }
  /// Each layer that is a multiple of it has experts; 1 where that is not how it is.
  [[nodiscard]] std::int64_t sparse_step() const noexcept;
  /// Rows of the table of learned positions; 0: there is none.
  [[nodiscard]] std::int64_t positions() const noexcept { return arch->learns_positions() ? context + arch->position_offset : 0; }
  [[nodiscard]] std::int64_t expert_dim() const noexcept { return expert_latent > 0 ? expert_latent : dim; }
  [[nodiscard]] bool is_latent() const noexcept { return kv_rank > 0; }
  /// Whether all dense layers have the same sizes, come first, and all sparse ones have the same; windows may differ, and with them what
  /// containers say of layers with and without one.
  [[nodiscard]] bool is_uniform() const noexcept;
  /// Whether block_configs can say what each layer has (ArchSpec::drops_halves): all that attend have as many query heads.
  [[nodiscard]] bool has_block_configs() const noexcept;
  /// Makes it a model of these layers, at least one. Each keeps its query heads a key-value head.
  void set_layers(std::vector<LayerSpec> of_layers);
  /// Of every label: as the file says, or LABEL_i.
  [[nodiscard]] std::vector<std::string> names_of_labels() const;
  /// What stands for a text where nobody says otherwise: what the file says, the first token of a text that a classifier reads, else the mean.
  [[nodiscard]] Pooling usual_pooling() const noexcept;
  /// Numbers of an embedding.
  [[nodiscard]] std::int64_t embedding_dim() const noexcept { return pooled_layers.empty() ? dim : pooled_layers.back().outputs; }
  /// Whether there are several residual streams, and of which kind.
  [[nodiscard]] bool has_streams() const noexcept { return streams > 0; }
  [[nodiscard]] bool alternates_streams() const noexcept { return streams > 0 && stream_rank == 0; }
  [[nodiscard]] bool connects_streams() const noexcept { return stream_rank > 0; }
  /// Numbers that stand for a token between the halves of a layer: the residual stream, or all of them; of those that alternate what blocks read and
  /// add to, too, before them.
  [[nodiscard]] std::int64_t state_dim() const noexcept { return connects_streams() ? streams * dim : (streams + 1) * dim; }
  /// The layer that reads embeddings of n-grams; `layers` where none does.
  [[nodiscard]] std::int64_t ngram_layer() const noexcept;
  [[nodiscard]] std::int64_t per_layer_tokens() const noexcept { return per_layer_vocab > 0 ? per_layer_vocab : vocab; }
  /// Where the table of per-layer embeddings has a token's: those without one have the first's.
  [[nodiscard]] std::int64_t per_layer_row(std::int64_t id) const noexcept { return id < per_layer_tokens() ? id : 0; }
  /// Of the keys and values of a sequence; layers that keep none have no heads.
  [[nodiscard]] nn::KvShape kv_shape() const { return kv_shape(specs); }
  /// Keys and values of an encoder's text for the layers behind it, empty.
  [[nodiscard]] nn::KvCache new_source(std::string_view kv) const { return nn::KvCache(kv_shape(specs), kv); }
  /// The state of a sequence that has read nothing: keys and values as `kv` says ("f32", "f16", "q8", "q4", "q3"), recurrent states in floats.
  /// What layer i keeps is at place i. Where a sequence is read at once each layer's keys and values replace those of the one before, in
  /// floats whatever `kv` says. Throws invalid_argument for other kinds.
  [[nodiscard]] nn::SequenceState new_state(std::string_view kv) const { return arch->causal ? new_state(kv, specs) : new_layer_state("f32", 0); }
  /// The same of one layer, or of the one whose keys it reads, at place 0, with as many heads as any layer like it has.
  [[nodiscard]] nn::SequenceState new_layer_state(std::string_view kv, std::int64_t i) const;

 private:
  [[nodiscard]] nn::KvShape kv_shape(std::span<const LayerSpec> of_layers) const;
  [[nodiscard]] nn::SequenceState new_state(std::string_view kv, std::span<const LayerSpec> of_layers) const;
};

/// A name of a TensorKey of the config's architecture with numbers in the places of {} and {e}, as layers that draft have it, too.
[[nodiscard]] std::string name_in(const ModelConfig& config, std::string_view pattern, const TensorId& id);

/// Throws invalid_argument, `what` first, for sequences of more tokens than the model has learned positions of.
void check_positions(const ModelConfig& config, std::int64_t tokens, std::string_view what);

/// A number as containers carry it; nothing where the model has none or a container derives it.
using FieldValue = std::optional<std::variant<std::int64_t, double>>;
[[nodiscard]] FieldValue value_of(const ModelConfig& config, Field field);

/// Reads config.json. Throws not_found, corrupt (naming key, expected, found) or unsupported (listing what works).
[[nodiscard]] ModelConfig read_hf_config(const std::filesystem::path& file);
/// Reads a GGUF file's metadata. `vocab` is 0 when the file does not say.
[[nodiscard]] ModelConfig read_gguf_config(const GgufFile& file);
/// Adds the keys of a model to a GGUF file. Throws unsupported for what GGUF cannot say.
void write_gguf_config(GgufWriter& file, const ModelConfig& config);
/// What its frequencies are divided by there, by names of tensors, (rope dim / 2) each: rope_freqs.weight, or two of longrope; or none.
[[nodiscard]] std::vector<std::pair<std::string, std::vector<float>>> gguf_rope_tensors(const ModelConfig& config);
/// config.json of a Hugging Face folder that holds this model.
[[nodiscard]] std::string write_hf_config(const ModelConfig& config, std::string_view torch_dtype);
/// How native files carry it: config.json's keys. `place` names the file in messages.
[[nodiscard]] ModelConfig parse_hf_config(std::string_view json, const std::string& place);

}  // namespace bantam::inline v0
