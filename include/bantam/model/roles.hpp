// What every weight of a model is for, in one table: how it lies, where it is kept, which weights read the same.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "bantam/model/weights.hpp"

namespace bantam::inline v0 {

/// What an axis of a weight counts.
enum class WeightAxis : std::uint8_t {
  one,         ///< the rows of a vector
  vocab,
  dim,         ///< the residual stream
  heads,
  queries,     ///< heads * head_dim
  keys,        ///< kv_heads * head_dim; of values, too
  outputs,     ///< heads * value_dim
  q_norm,      ///< what an RMS norm of queries is taken over: a head or all of them
  k_norm,
  rope_pairs,  ///< rope.dim / 2
  q_rank,
  kv_rank,
  latent,           ///< kv_rank + rope.dim
  latent_queries,   ///< heads * kv_rank
  nope,             ///< head_dim - rope.dim
  ffn,
  experts,
  expert_ffn,
};

/// The length of an axis in a layer, 0 where the layer has none; -1: outside of layers.
[[nodiscard]] std::int64_t extent_of(WeightAxis axis, std::int64_t layer, const ModelConfig& config) noexcept;

/// How many there are of a weight.
enum class Scope : std::uint8_t { model, layer, expert };

/// One role: a row of the table.
struct RoleInfo {
  using Place = std::variant<std::monostate, WeightMatrix ModelWeights::*, std::vector<float> ModelWeights::*, std::vector<float> LayerWeights::*,
                             WeightMatrix nn::AttentionWeights::*, std::vector<float> nn::AttentionWeights::*, WeightMatrix nn::MlpWeights::*,
                             std::vector<float> nn::MlpWeights::*, WeightMatrix nn::ExpertsWeights::*, std::vector<float> nn::ExpertsWeights::*>;
  Role role;
  Scope scope;
  WeightAxis rows, columns;
  Place place;                       ///< none: the config carries it
  std::optional<Role> bias_of = {};  ///< the matrix whose rows it is added to
  bool by_heads = false;             ///< a matrix of each head, one behind the other: GGUF's (heads, rows, columns)

  [[nodiscard]] constexpr bool is_matrix() const noexcept { return rows != WeightAxis::one; }
  /// One row a token: read row by row, and as a head.
  [[nodiscard]] constexpr bool is_table() const noexcept { return rows == WeightAxis::vocab; }
  [[nodiscard]] constexpr bool is_of_layer() const noexcept { return scope != Scope::model; }
  [[nodiscard]] constexpr bool is_of_expert() const noexcept { return scope == Scope::expert; }
  /// A router's choice that flips costs more than its bytes: its matrix stays as it is.
  [[nodiscard]] constexpr bool stays_float() const noexcept { return rows == WeightAxis::experts; }
};

/// One row a role, in their order.
inline constexpr std::array roles = std::to_array<RoleInfo>({
    {Role::embedding, Scope::model, WeightAxis::vocab, WeightAxis::dim, &ModelWeights::embedding},
    {Role::final_norm, Scope::model, WeightAxis::one, WeightAxis::dim, &ModelWeights::final_norm},
    {Role::final_norm_bias, Scope::model, WeightAxis::one, WeightAxis::dim, &ModelWeights::final_norm_bias},
    {Role::head, Scope::model, WeightAxis::vocab, WeightAxis::dim, &ModelWeights::head},
    {Role::rope_divisors, Scope::model, WeightAxis::one, WeightAxis::rope_pairs, {}},
    {Role::attention_norm, Scope::layer, WeightAxis::one, WeightAxis::dim, &LayerWeights::attention_norm},
    {Role::attention_norm_bias, Scope::layer, WeightAxis::one, WeightAxis::dim, &LayerWeights::attention_norm_bias},
    {Role::attention_out_norm, Scope::layer, WeightAxis::one, WeightAxis::dim, &LayerWeights::attention_out_norm},
    {Role::q, Scope::layer, WeightAxis::queries, WeightAxis::dim, &nn::AttentionWeights::q},
    {Role::k, Scope::layer, WeightAxis::keys, WeightAxis::dim, &nn::AttentionWeights::k},
    {Role::v, Scope::layer, WeightAxis::keys, WeightAxis::dim, &nn::AttentionWeights::v},
    {Role::o, Scope::layer, WeightAxis::dim, WeightAxis::outputs, &nn::AttentionWeights::o},
    {Role::q_bias, Scope::layer, WeightAxis::one, WeightAxis::queries, &nn::AttentionWeights::q_bias, Role::q},
    {Role::k_bias, Scope::layer, WeightAxis::one, WeightAxis::keys, &nn::AttentionWeights::k_bias, Role::k},
    {Role::v_bias, Scope::layer, WeightAxis::one, WeightAxis::keys, &nn::AttentionWeights::v_bias, Role::v},
    {Role::o_bias, Scope::layer, WeightAxis::one, WeightAxis::dim, &nn::AttentionWeights::o_bias, Role::o},
    {Role::q_norm, Scope::layer, WeightAxis::one, WeightAxis::q_norm, &nn::AttentionWeights::q_norm},
    {Role::k_norm, Scope::layer, WeightAxis::one, WeightAxis::k_norm, &nn::AttentionWeights::k_norm},
    {Role::sinks, Scope::layer, WeightAxis::one, WeightAxis::heads, &nn::AttentionWeights::sinks},
    {Role::q_a, Scope::layer, WeightAxis::q_rank, WeightAxis::dim, &nn::AttentionWeights::q_a},
    {Role::q_a_norm, Scope::layer, WeightAxis::one, WeightAxis::q_rank, &nn::AttentionWeights::q_a_norm},
    {Role::q_b, Scope::layer, WeightAxis::queries, WeightAxis::q_rank, &nn::AttentionWeights::q_b},
    {Role::kv_a, Scope::layer, WeightAxis::latent, WeightAxis::dim, &nn::AttentionWeights::kv_a},
    {Role::kv_a_norm, Scope::layer, WeightAxis::one, WeightAxis::kv_rank, &nn::AttentionWeights::kv_a_norm},
    {Role::k_b, Scope::layer, WeightAxis::latent_queries, WeightAxis::nope, &nn::AttentionWeights::k_b, {}, true},
    {Role::v_b, Scope::layer, WeightAxis::outputs, WeightAxis::kv_rank, &nn::AttentionWeights::v_b, {}, true},
    {Role::ffn_norm, Scope::layer, WeightAxis::one, WeightAxis::dim, &LayerWeights::ffn_norm},
    {Role::ffn_norm_bias, Scope::layer, WeightAxis::one, WeightAxis::dim, &LayerWeights::ffn_norm_bias},
    {Role::ffn_out_norm, Scope::layer, WeightAxis::one, WeightAxis::dim, &LayerWeights::ffn_out_norm},
    {Role::gate, Scope::layer, WeightAxis::ffn, WeightAxis::dim, &nn::MlpWeights::gate},
    {Role::up, Scope::layer, WeightAxis::ffn, WeightAxis::dim, &nn::MlpWeights::up},
    {Role::down, Scope::layer, WeightAxis::dim, WeightAxis::ffn, &nn::MlpWeights::down},
    {Role::gate_bias, Scope::layer, WeightAxis::one, WeightAxis::ffn, &nn::MlpWeights::gate_bias, Role::gate},
    {Role::up_bias, Scope::layer, WeightAxis::one, WeightAxis::ffn, &nn::MlpWeights::up_bias, Role::up},
    {Role::down_bias, Scope::layer, WeightAxis::one, WeightAxis::dim, &nn::MlpWeights::down_bias, Role::down},
    {Role::router, Scope::layer, WeightAxis::experts, WeightAxis::dim, &nn::ExpertsWeights::router},
    {Role::router_bias, Scope::layer, WeightAxis::one, WeightAxis::experts, &nn::ExpertsWeights::router_bias, Role::router},
    {Role::selection_bias, Scope::layer, WeightAxis::one, WeightAxis::experts, &nn::ExpertsWeights::selection_bias},
    {Role::shared_gate, Scope::layer, WeightAxis::one, WeightAxis::dim, &nn::ExpertsWeights::shared_gate},
    {Role::expert_gate, Scope::expert, WeightAxis::expert_ffn, WeightAxis::dim, &nn::MlpWeights::gate},
    {Role::expert_up, Scope::expert, WeightAxis::expert_ffn, WeightAxis::dim, &nn::MlpWeights::up},
    {Role::expert_down, Scope::expert, WeightAxis::dim, WeightAxis::expert_ffn, &nn::MlpWeights::down},
    {Role::expert_gate_bias, Scope::expert, WeightAxis::one, WeightAxis::expert_ffn, &nn::MlpWeights::gate_bias, Role::expert_gate},
    {Role::expert_up_bias, Scope::expert, WeightAxis::one, WeightAxis::expert_ffn, &nn::MlpWeights::up_bias, Role::expert_up},
    {Role::expert_down_bias, Scope::expert, WeightAxis::one, WeightAxis::dim, &nn::MlpWeights::down_bias, Role::expert_down},
});
static_assert([] {
  for (std::size_t i = 0; i < roles.size(); ++i) {
    if (static_cast<std::size_t>(roles[i].role) != i) return false;
  }
  return true;
}());

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
  return reader == Role::q || reader == Role::k || reader == Role::v || reader == Role::q_a || reader == Role::kv_a ? Role::attention_norm : Role::ffn_norm;
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

/// How far a half of a block is run: the first four are of attention, the others of the feed-forward half.
enum class BlockStage : std::uint8_t {
  attention_inputs,  ///< what q, k and v read, or q, q_a and kv_a
  query_inputs,      ///< what q_b reads
  output_inputs,     ///< what o reads
  attention,
  mlp_inputs,        ///< what gate and up read
  down_inputs,       ///< what down reads
  mlp,
};

/// The matrices of a layer that read the same activations: they share second moments, scales of AWQ and SmoothQuant, and outliers.
struct InputGroup {
  std::string_view name;  ///< "q, k and v"
  std::span<const Role> roles;
  Role source;        ///< makes what they read, value by value: a norm's weight, or the rows of a matrix
  BlockStage inputs;  ///< where a pass over the layer comes to what they read
  BlockStage half;    ///< the half of the layer they are in
  bool adds;          ///< to the residual stream: the last of its half
  /// Whether it reads the residual stream, after a norm.
  [[nodiscard]] constexpr bool reads_stream() const noexcept { return info_of(roles[0]).columns == WeightAxis::dim; }
};
/// In the order in which a layer runs them.
[[nodiscard]] std::span<const InputGroup> input_groups() noexcept;
/// The first matrix of a group that a layer has; null: it has none.
[[nodiscard]] const WeightMatrix* first_of(const LayerWeights& layer, const InputGroup& group) noexcept;
/// The number of a matrix's group among them; how many there are for one of none.
[[nodiscard]] std::size_t input_group_of(Role role) noexcept;

}  // namespace bantam::inline v0
