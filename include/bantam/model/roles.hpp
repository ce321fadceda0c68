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
  q_norm,      ///< what an RMS norm of queries is taken over: a head or all of them
  k_norm,
  rope_pairs,  ///< rope.dim / 2
  ffn,
  experts,
  expert_ffn,
};

/// The length of an axis in a layer, 0 where the layer has none; -1: outside of layers.
[[nodiscard]] std::int64_t extent_of(WeightAxis axis, std::int64_t layer, const ModelConfig& config) noexcept;

/// One role: a row of the table.
struct RoleInfo {
  using Place = std::variant<std::monostate, WeightMatrix ModelWeights::*, std::vector<float> ModelWeights::*, WeightMatrix LayerWeights::*,
                             std::vector<float> LayerWeights::*, WeightMatrix nn::ExpertsWeights::*, std::vector<float> nn::ExpertsWeights::*,
                             WeightMatrix nn::ExpertWeights::*, std::vector<float> nn::ExpertWeights::*>;
  Role role;
  WeightAxis rows, columns;
  Place place;                  ///< none: the config carries it
  std::optional<Role> bias_of;  ///< the matrix whose rows it is added to

  [[nodiscard]] constexpr bool is_matrix() const noexcept { return rows != WeightAxis::one; }
  /// One row a token: read row by row, and as a head.
  [[nodiscard]] constexpr bool is_table() const noexcept { return rows == WeightAxis::vocab; }
  [[nodiscard]] constexpr bool is_of_layer() const noexcept { return place.index() >= 3; }
  [[nodiscard]] constexpr bool is_of_expert() const noexcept { return place.index() >= 7; }
  /// A router's choice that flips costs more than its bytes: its matrix stays as it is.
  [[nodiscard]] constexpr bool stays_float() const noexcept { return rows == WeightAxis::experts; }
};

/// One row a role, in their order.
inline constexpr std::array roles = std::to_array<RoleInfo>({
    {Role::embedding, WeightAxis::vocab, WeightAxis::dim, &ModelWeights::embedding, {}},
    {Role::final_norm, WeightAxis::one, WeightAxis::dim, &ModelWeights::final_norm, {}},
    {Role::head, WeightAxis::vocab, WeightAxis::dim, &ModelWeights::head, {}},
    {Role::rope_divisors, WeightAxis::one, WeightAxis::rope_pairs, {}, {}},
    {Role::attention_norm, WeightAxis::one, WeightAxis::dim, &LayerWeights::attention_norm, {}},
    {Role::q, WeightAxis::queries, WeightAxis::dim, &LayerWeights::q, {}},
    {Role::k, WeightAxis::keys, WeightAxis::dim, &LayerWeights::k, {}},
    {Role::v, WeightAxis::keys, WeightAxis::dim, &LayerWeights::v, {}},
    {Role::o, WeightAxis::dim, WeightAxis::queries, &LayerWeights::o, {}},
    {Role::q_bias, WeightAxis::one, WeightAxis::queries, &LayerWeights::q_bias, Role::q},
    {Role::k_bias, WeightAxis::one, WeightAxis::keys, &LayerWeights::k_bias, Role::k},
    {Role::v_bias, WeightAxis::one, WeightAxis::keys, &LayerWeights::v_bias, Role::v},
    {Role::o_bias, WeightAxis::one, WeightAxis::dim, &LayerWeights::o_bias, Role::o},
    {Role::q_norm, WeightAxis::one, WeightAxis::q_norm, &LayerWeights::q_norm, {}},
    {Role::k_norm, WeightAxis::one, WeightAxis::k_norm, &LayerWeights::k_norm, {}},
    {Role::sinks, WeightAxis::one, WeightAxis::heads, &LayerWeights::sinks, {}},
    {Role::ffn_norm, WeightAxis::one, WeightAxis::dim, &LayerWeights::ffn_norm, {}},
    {Role::gate, WeightAxis::ffn, WeightAxis::dim, &LayerWeights::gate, {}},
    {Role::up, WeightAxis::ffn, WeightAxis::dim, &LayerWeights::up, {}},
    {Role::down, WeightAxis::dim, WeightAxis::ffn, &LayerWeights::down, {}},
    {Role::gate_bias, WeightAxis::one, WeightAxis::ffn, &LayerWeights::gate_bias, Role::gate},
    {Role::up_bias, WeightAxis::one, WeightAxis::ffn, &LayerWeights::up_bias, Role::up},
    {Role::down_bias, WeightAxis::one, WeightAxis::dim, &LayerWeights::down_bias, Role::down},
    {Role::router, WeightAxis::experts, WeightAxis::dim, &nn::ExpertsWeights::router, {}},
    {Role::router_bias, WeightAxis::one, WeightAxis::experts, &nn::ExpertsWeights::router_bias, Role::router},
    {Role::selection_bias, WeightAxis::one, WeightAxis::experts, &nn::ExpertsWeights::selection_bias, {}},
    {Role::shared_gate, WeightAxis::one, WeightAxis::dim, &nn::ExpertsWeights::shared_gate, {}},
    {Role::expert_gate, WeightAxis::expert_ffn, WeightAxis::dim, &nn::ExpertWeights::gate, {}},
    {Role::expert_up, WeightAxis::expert_ffn, WeightAxis::dim, &nn::ExpertWeights::up, {}},
    {Role::expert_down, WeightAxis::dim, WeightAxis::expert_ffn, &nn::ExpertWeights::down, {}},
    {Role::expert_gate_bias, WeightAxis::one, WeightAxis::expert_ffn, &nn::ExpertWeights::gate_bias, Role::expert_gate},
    {Role::expert_up_bias, WeightAxis::one, WeightAxis::expert_ffn, &nn::ExpertWeights::up_bias, Role::expert_up},
    {Role::expert_down_bias, WeightAxis::one, WeightAxis::dim, &nn::ExpertWeights::down_bias, Role::expert_down},
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
  return reader == Role::q || reader == Role::k || reader == Role::v ? Role::attention_norm : Role::ffn_norm;
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

/// How far a half of a block is run: the first three are of attention, the others of the feed-forward half.
enum class BlockStage : std::uint8_t {
  attention_inputs,  ///< what q, k and v read
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
};
/// In the order in which a layer runs them.
[[nodiscard]] std::span<const InputGroup> input_groups() noexcept;
/// The number of a matrix's group among them.
[[nodiscard]] std::size_t input_group_of(Role role) noexcept;

}  // namespace bantam::inline v0
