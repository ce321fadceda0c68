// What every weight of a model is for, in one table: how it lies, where it is kept, which weights read the same.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "bantam/model/weights.hpp"

namespace bantam::inline v0 {

/// The length of an axis in a layer, 0 where the layer has none; -1: outside of layers.
[[nodiscard]] std::int64_t extent_of(WeightAxis axis, std::int64_t layer, const ModelConfig& config) noexcept;

/// Whether an axis is that of the residual stream, in a model whose experts read it.
[[nodiscard]] constexpr bool is_stream(WeightAxis axis) noexcept { return axis == WeightAxis::dim || axis == WeightAxis::expert_dim; }

/// How many there are of a weight.
enum class Scope : std::uint8_t { model, layer, expert };

/// One role: a row of the table, which the tables of blocks make up.
struct RoleInfo {
  /// Where a layer keeps a weight, of expert `expert` if it is one's.
  template <class T>
  using Place = T* (*)(LayerWeights&, std::int64_t expert) noexcept;
  Role role{};
  Scope scope = Scope::layer;
  WeightAxis rows{}, columns{};
  Place<WeightMatrix> matrix = nullptr;
  Place<std::vector<float>> vector = nullptr;
  WeightMatrix ModelWeights::* model_matrix = nullptr;  ///< of no layer
  std::vector<float> ModelWeights::* model_vector = nullptr;
  std::optional<Role> bias_of = {};  ///< the matrix whose rows it is added to
  bool by_heads = false;             ///< a matrix of each head, one behind the other: GGUF's (heads, rows, columns)
  bool by_streams = false;           ///< the same of each residual stream but the first, of which folders have tensors of their own

  [[nodiscard]] constexpr bool is_matrix() const noexcept { return rows != WeightAxis::one; }
  /// A matrix of no layer: what is read row by row, a row a token, a head, and what makes per-layer embeddings.
  [[nodiscard]] constexpr bool is_table() const noexcept { return is_matrix() && !is_of_layer(); }
  /// A table of which a token reads one row.
  [[nodiscard]] constexpr bool is_looked_up() const noexcept { return role == Role::embedding || role == Role::position_embedding || role == Role::encoder_position_embedding || role == Role::per_layer_embedding || role == Role::ngram_embedding; }
  [[nodiscard]] constexpr bool is_of_layer() const noexcept { return scope != Scope::model; }
  [[nodiscard]] constexpr bool is_of_expert() const noexcept { return scope == Scope::expert; }
  /// A router's choice that flips costs more than its bytes, and of the others there are few: these matrices stay as they are.
  [[nodiscard]] constexpr bool stays_float() const noexcept {
    return rows == WeightAxis::experts || rows == WeightAxis::positions || rows == WeightAxis::encoder_positions || by_streams || is_low_rank_branch() || is_of_streams();
  }
  /// Of those what is floats in memory, too, though a file has it quantized. Not what reads several residual streams, all of which every token reads.
  [[nodiscard]] constexpr bool is_widened() const noexcept { return stays_float() && !is_of_streams(); }
  /// Of a residual branch of low rank (LAuReL): few numbers, of which every one counts.
  [[nodiscard]] constexpr bool is_low_rank_branch() const noexcept { return is_matrix() && (rows == WeightAxis::laurel || columns == WeightAxis::laurel); }
  /// What reads several residual streams, or makes something of each: hyper-connections, and keys and values of n-grams.
  [[nodiscard]] constexpr bool is_of_streams() const noexcept {
    return is_matrix() && (rows == WeightAxis::all_streams || columns == WeightAxis::all_streams || columns == WeightAxis::ngram_width);
  }
  /// Whether adapters may add to it: linear layers, but those of several residual streams.
  [[nodiscard]] constexpr bool is_adaptable() const noexcept { return is_matrix() && !by_streams && !is_of_streams(); }
  /// A matrix whose inputs no pass over a block comes to, so that it has no input group: of heads, and into and out of the space of experts.
  [[nodiscard]] constexpr bool is_ungrouped() const noexcept { return by_heads || rows == WeightAxis::expert_latent || columns == WeightAxis::expert_latent; }
};

namespace detail {

/// Collects the rows of all tables, each at the place of its role.
struct RoleTable {
  static constexpr std::size_t size = static_cast<std::size_t>(Role::expert_down_bias) + 1;
  std::array<RoleInfo, size> rows{};
  std::array<int, size> count{};

  constexpr void add(const RoleInfo& row) {
    rows[static_cast<std::size_t>(row.role)] = row;
    ++count[static_cast<std::size_t>(row.role)];
  }
  /// A block's table. get(layer, expert): its weights, or null.
  template <const auto& table, auto get>
  constexpr void add_block(Scope scope = Scope::layer) {
    [&]<std::size_t... i>(std::index_sequence<i...>) { (add_weight<table, get, i>(scope), ...); }(std::make_index_sequence<std::size(table)>());
  }
  template <const auto& table, auto get, std::size_t i>
  constexpr void add_weight(Scope scope) {
    constexpr const auto& row = table[i];
    RoleInfo info{.role = row.role, .scope = scope, .rows = row.rows, .columns = row.columns, .bias_of = row.bias_of, .by_heads = row.by_heads};
    if constexpr (row.rows == WeightAxis::one) {
      info.vector = place_of<std::vector<float>, table, get, i>;
    } else {
      info.matrix = place_of<WeightMatrix, table, get, i>;
    }
    add(info);
  }
  template <class T, const auto& table, auto get, std::size_t i>
  static T* place_of(LayerWeights& layer, std::int64_t expert) noexcept {
    constexpr std::size_t kind = std::is_same_v<T, WeightMatrix> ? 0 : 1;
    auto* weights = get(layer, expert);
    return weights == nullptr ? nullptr : &(weights->*std::get<kind>(table[i].place));
  }
};

template <auto member>
inline constexpr auto member_of = [](LayerWeights& layer, std::int64_t) noexcept { return &(layer.*member); };
inline constexpr auto layer_itself = [](LayerWeights& layer, std::int64_t) noexcept { return &layer; };
inline constexpr auto one_expert = [](LayerWeights& layer, std::int64_t expert) noexcept {
  return expert < 0 ? nullptr : &layer.experts.experts[static_cast<std::size_t>(expert)];
};

inline constexpr RoleTable role_table = [] {
  RoleTable all;
  all.add({.role = Role::embedding, .scope = Scope::model, .rows = WeightAxis::vocab, .columns = WeightAxis::dim, .model_matrix = &ModelWeights::embedding});
  all.add({.role = Role::position_embedding, .scope = Scope::model, .rows = WeightAxis::positions, .columns = WeightAxis::dim, .model_matrix = &ModelWeights::position_embedding});
  all.add({.role = Role::embedding_norm, .scope = Scope::model, .columns = WeightAxis::dim, .model_vector = &ModelWeights::embedding_norm});
  all.add({.role = Role::embedding_norm_bias, .scope = Scope::model, .columns = WeightAxis::dim, .model_vector = &ModelWeights::embedding_norm_bias});
  all.add({.role = Role::final_norm, .scope = Scope::model, .columns = WeightAxis::dim, .model_vector = &ModelWeights::final_norm});
  all.add({.role = Role::final_norm_bias, .scope = Scope::model, .columns = WeightAxis::dim, .model_vector = &ModelWeights::final_norm_bias});
  all.add({.role = Role::encoder_norm, .scope = Scope::model, .columns = WeightAxis::dim, .model_vector = &ModelWeights::encoder_norm});
  all.add({.role = Role::encoder_norm_bias, .scope = Scope::model, .columns = WeightAxis::dim, .model_vector = &ModelWeights::encoder_norm_bias});
  all.add({.role = Role::encoder_position_embedding, .scope = Scope::model, .rows = WeightAxis::encoder_positions, .columns = WeightAxis::dim, .model_matrix = &ModelWeights::encoder_position_embedding});
  all.add({.role = Role::encoder_embedding_norm, .scope = Scope::model, .columns = WeightAxis::dim, .model_vector = &ModelWeights::encoder_embedding_norm});
  all.add({.role = Role::encoder_embedding_norm_bias, .scope = Scope::model, .columns = WeightAxis::dim, .model_vector = &ModelWeights::encoder_embedding_norm_bias});
  all.add({.role = Role::head, .scope = Scope::model, .rows = WeightAxis::vocab, .columns = WeightAxis::dim, .model_matrix = &ModelWeights::head});
  all.add({.role = Role::head_bias, .scope = Scope::model, .columns = WeightAxis::vocab, .model_vector = &ModelWeights::head_bias, .bias_of = Role::head});
  all.add({.role = Role::rope_divisors, .scope = Scope::model, .columns = WeightAxis::rope_pairs});  // the config carries them
  all.add({.role = Role::per_layer_embedding, .scope = Scope::model, .rows = WeightAxis::per_layer_vocab, .columns = WeightAxis::all_per_layer, .model_matrix = &ModelWeights::per_layer_embedding});
  all.add({.role = Role::per_layer_model_projection, .scope = Scope::model, .rows = WeightAxis::all_per_layer, .columns = WeightAxis::dim, .model_matrix = &ModelWeights::per_layer_projection});
  all.add({.role = Role::per_layer_model_norm, .scope = Scope::model, .columns = WeightAxis::per_layer, .model_vector = &ModelWeights::per_layer_norm});
  all.add({.role = Role::stream_projection, .scope = Scope::model, .rows = WeightAxis::other_streams, .columns = WeightAxis::dim, .model_matrix = &ModelWeights::stream_projection, .by_streams = true});
  all.add({.role = Role::stream_unembedding, .scope = Scope::model, .rows = WeightAxis::other_streams, .columns = WeightAxis::dim, .model_matrix = &ModelWeights::stream_unembedding, .by_streams = true});
  all.add({.role = Role::head_streams_norm, .scope = Scope::model, .columns = WeightAxis::all_streams, .model_vector = &ModelWeights::head_streams_norm});
  all.add({.role = Role::head_streams_down, .scope = Scope::model, .rows = WeightAxis::stream_rank, .columns = WeightAxis::all_streams, .model_matrix = &ModelWeights::head_streams_down});
  all.add({.role = Role::head_streams_up, .scope = Scope::model, .rows = WeightAxis::all_streams, .columns = WeightAxis::stream_rank, .model_matrix = &ModelWeights::head_streams_up});
  all.add({.role = Role::ngram_embedding, .scope = Scope::model, .rows = WeightAxis::ngram_rows, .columns = WeightAxis::ngram_row, .model_matrix = &ModelWeights::ngram_embedding});
  all.add({.role = Role::token_type_embedding, .scope = Scope::model, .columns = WeightAxis::token_type_rows, .model_vector = &ModelWeights::token_types});
  all.add({.role = Role::class_dense, .scope = Scope::model, .columns = WeightAxis::class_square, .model_vector = &ModelWeights::class_dense});
  all.add({.role = Role::class_dense_bias, .scope = Scope::model, .columns = WeightAxis::dim, .model_vector = &ModelWeights::class_dense_bias});
  all.add({.role = Role::class_norm, .scope = Scope::model, .columns = WeightAxis::dim, .model_vector = &ModelWeights::class_norm});
  all.add({.role = Role::class_head, .scope = Scope::model, .columns = WeightAxis::class_rows, .model_vector = &ModelWeights::class_head});
  all.add({.role = Role::class_head_bias, .scope = Scope::model, .columns = WeightAxis::labels, .model_vector = &ModelWeights::class_head_bias});
  all.add({.role = Role::pooled_dense, .scope = Scope::model, .columns = WeightAxis::pooled_square, .model_vector = &ModelWeights::pooled_dense});
  all.add({.role = Role::pooled_dense_bias, .scope = Scope::model, .columns = WeightAxis::pooled_rows, .model_vector = &ModelWeights::pooled_dense_bias});
  all.add({.role = Role::pooled_dense_2, .scope = Scope::model, .columns = WeightAxis::pooled_square_2, .model_vector = &ModelWeights::pooled_dense_2});
  all.add({.role = Role::pooled_dense_2_bias, .scope = Scope::model, .columns = WeightAxis::pooled_rows_2, .model_vector = &ModelWeights::pooled_dense_2_bias});
  all.add_block<nn::norms_table, layer_itself>();
  all.add_block<nn::attention_table, member_of<&LayerWeights::attention>>();
  all.add_block<nn::cross_attention_table, member_of<&LayerWeights::cross>>();
  all.add_block<nn::gated_delta_table, member_of<&LayerWeights::delta>>();
  all.add_block<nn::channel_delta_table, member_of<&LayerWeights::channel_delta>>();
  all.add_block<nn::state_space_table, member_of<&LayerWeights::state_space>>();
  all.add_block<nn::short_convolution_table, member_of<&LayerWeights::convolution>>();
  all.add_block<nn::mlp_table, member_of<&LayerWeights::mlp>>();
  all.add_block<nn::experts_table, member_of<&LayerWeights::experts>>();
  all.add_block<nn::drafting_table, member_of<&LayerWeights::drafting>>();
  all.add_block<nn::expert_table, one_expert>(Scope::expert);
  all.add_block<nn::per_layer_table, member_of<&LayerWeights::per_layer>>();
  all.add_block<nn::altup_table, member_of<&LayerWeights::altup>>();
  all.add_block<nn::mixer_connection_table, member_of<&LayerWeights::mixer_streams>>();
  all.add_block<nn::ffn_connection_table, member_of<&LayerWeights::ffn_streams>>();
  all.add_block<nn::ngram_table, member_of<&LayerWeights::ngram>>();
  all.add_block<nn::laurel_table, member_of<&LayerWeights::laurel>>();
  return all;
}();
static_assert(std::ranges::all_of(role_table.count, [](int rows) { return rows == 1; }), "every role stands in one table, once");

}  // namespace detail

/// One row a role, in their order.
inline constexpr const std::array<RoleInfo, detail::RoleTable::size>& roles = detail::role_table.rows;

[[nodiscard]] constexpr const RoleInfo& info_of(Role role) noexcept { return roles[static_cast<std::size_t>(role)]; }

/// (rows, columns) that a config asks of a role; rows of a vector are 1.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> shape_of(Role role, std::int64_t layer, const ModelConfig& config) noexcept;
/// Heads whose rows rope turns by pairs, of a matrix or bias that makes queries or keys; 0 for the others.
[[nodiscard]] std::int64_t rope_heads_of(Role role, std::int64_t layer, const ModelConfig& config) noexcept;

/// Whether the architecture's files may have a tensor of this role in a layer: not what belongs to experts or an MLP that it lacks.
[[nodiscard]] bool is_in_layer(Role role, std::int64_t layer, const ModelConfig& config) noexcept;

/// A matrix in a layer, empty where the model has none; null for what is no matrix of a layer.
[[nodiscard]] WeightMatrix* matrix_of(LayerWeights& layer, const TensorId& id) noexcept;
[[nodiscard]] const WeightMatrix* matrix_of(const LayerWeights& layer, const TensorId& id) noexcept;
/// The same in a model.
[[nodiscard]] WeightMatrix* matrix_of(ModelWeights& weights, const TensorId& id) noexcept;
[[nodiscard]] const WeightMatrix* matrix_of(const ModelWeights& weights, const TensorId& id) noexcept;
/// A vector; null for matrices and for what the config carries (rope divisors).
[[nodiscard]] std::vector<float>* vector_of(LayerWeights& layer, const TensorId& id) noexcept;
[[nodiscard]] const std::vector<float>* vector_of(const LayerWeights& layer, const TensorId& id) noexcept;
[[nodiscard]] std::vector<float>* vector_of(ModelWeights& weights, const TensorId& id) noexcept;
[[nodiscard]] const std::vector<float>* vector_of(const ModelWeights& weights, const TensorId& id) noexcept;
/// The norm whose outputs a matrix that reads the residual stream reads.
[[nodiscard]] constexpr Role norm_of(Role reader) noexcept {
  if (reader == Role::cross_q) return Role::cross_norm;
  return reader == Role::q || reader == Role::k || reader == Role::v || reader == Role::q_a || reader == Role::kv_a || reader == Role::attention_gate || reader == Role::index_k || reader == Role::index_weights || reader == Role::index_q_stream ? Role::attention_norm : Role::ffn_norm;
}

/// The role of the bias that is added to what a matrix makes.
[[nodiscard]] std::optional<Role> bias_role_of(Role matrix) noexcept;
/// That bias of a matrix; null where the role or the model has none.
[[nodiscard]] std::vector<float>* bias_of(LayerWeights& layer, const TensorId& matrix) noexcept;
[[nodiscard]] const std::vector<float>* bias_of(const LayerWeights& layer, const TensorId& matrix) noexcept;

/// Calls f(id without its layer, matrix) for every matrix of a layer, those of experts included.
template <class Layer, class F>
void for_each_matrix(Layer& layer, F&& f) {
  for (const RoleInfo& info : roles) {
    if (!info.is_matrix() || !info.is_of_layer()) continue;
    const std::int64_t experts = info.is_of_expert() ? std::ssize(layer.experts.experts) : 0;
    if (!info.is_of_expert()) f(TensorId(info.role), *matrix_of(layer, info.role));
    for (std::int64_t e = 0; e < experts; ++e) f(TensorId(info.role, -1, e), *matrix_of(layer, {info.role, -1, e}));
  }
}

/// The halves of a layer: the first lets the tokens of a sequence see each other, the second works on each token by itself. `cross`, between
/// them, is of a decoder that reads what an encoder made; `end` is what a few models have behind the two: a per-layer embedding, and a scale
/// of all that came so far.
enum class Half : std::uint8_t { mixer, cross, feed_forward, end };
inline constexpr Half halves[] = {Half::mixer, Half::cross, Half::feed_forward, Half::end};

/// What a block declares of its inputs (nn::BlockInputs), in a layer.
struct InputGroup {
  std::string_view name;
  std::span<const Role> roles;
  Role source{};   ///< the norm before the half, where the block names no other
  std::optional<Role> norm{};  ///< of what the source makes, in models that have it
  Half half{};
  int number = 0;  ///< in its block
  bool adds = false;
  bool fixed = false;  ///< nothing before it can take scales
  /// Whether it reads the residual stream, after a norm.
  [[nodiscard]] constexpr bool reads_stream() const noexcept { return info_of(roles[0]).columns == WeightAxis::dim; }
};
/// In the order in which a layer runs them.
[[nodiscard]] std::span<const InputGroup> input_groups() noexcept;
/// What can take scales of what a group reads: its norm, or what makes it.
[[nodiscard]] Role source_of(const LayerWeights& layer, const InputGroup& group) noexcept;
/// The first matrix of a group that a layer has; null: it has none.
[[nodiscard]] const WeightMatrix* first_of(const LayerWeights& layer, const InputGroup& group) noexcept;
/// The group of a half whose outputs are added to the residual stream in this layer; null: none, or several, which add up.
[[nodiscard]] const InputGroup* last_of(const LayerWeights& layer, Half half) noexcept;
/// The group of a matrix that is in one.
[[nodiscard]] const InputGroup& group_of(Role role) noexcept;
/// The number of a matrix's group among them; how many there are for one of none.
[[nodiscard]] std::size_t input_group_of(Role role) noexcept;

}  // namespace bantam::inline v0
