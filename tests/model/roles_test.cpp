// The table of roles: complete, and of one mind with the input groups.
#include "bantam/model/roles.hpp"

#include "bantam/model/archs.hpp"

#include <map>
#include <set>

#include "support.hpp"

namespace bantam::test {
namespace {

TEST_CASE("every matrix of a layer is in one input group, whose matrices have as many columns as its source makes numbers") {
  std::set<Role> grouped;
  for (std::size_t g = 0; g < input_groups().size(); ++g) {
    const InputGroup& group = input_groups()[g];
    CAPTURE(std::string(group.name));
    const WeightAxis inputs = info_of(group.roles[0]).columns;
    for (const Role role : group.roles) {
      CHECK(grouped.insert(role).second);
      CHECK(input_group_of(role) == g);
      CHECK(info_of(role).columns == inputs);
      CHECK((info_of(role).rows == WeightAxis::dim) == group.adds);
    }
    if (group.adds) CHECK(group.roles.size() == 1);
    // Values are shared by the heads that share keys, norms of delta nets by all heads, and of what makes a convolution's input a third is
    // left; all others make a number for each input.
    const std::map<Role, WeightAxis> shared = {{Role::v, WeightAxis::values}, {Role::delta_norm, WeightAxis::delta_value}, {Role::channel_norm, WeightAxis::channel_rank}, {Role::short_in, WeightAxis::short_in}};
    const RoleInfo& source = info_of(group.source);
    CHECK((source.is_matrix() ? source.rows : source.columns) == (shared.contains(group.source) ? shared.at(group.source) : inputs));
    CHECK(group.reads_stream() == (inputs == WeightAxis::dim));
  }
  LayerWeights layer;
  make_room(layer, {.experts = 3});
  std::size_t in_groups = 0, of_experts = 0;
  for_each_matrix(layer, [&](const TensorId& found, WeightMatrix& matrix) {
    const RoleInfo& info = info_of(found.role);
    in_groups += grouped.contains(info.role);
    const TensorId id(info.role, 0, info.is_of_expert() ? static_cast<std::int64_t>(of_experts++) % 3 : -1);
    CHECK(&matrix == matrix_of(layer, id));
    CHECK(vector_of(layer, id) == nullptr);
    CHECK((grouped.contains(info.role) || info.is_of_expert() || info.stays_float() || info.is_ungrouped() || info.role == Role::draft_projection));
  });
  CHECK(in_groups == grouped.size());
  CHECK(of_experts == 3 * 3);
  CHECK(matrix_of(layer, Role::expert_up) == nullptr);  // of no expert
}

TEST_CASE("biases are as long as their matrices have rows") {
  for (const RoleInfo& info : roles) {
    if (!info.bias_of) continue;
    CHECK(info.columns == info_of(*info.bias_of).rows);
    CHECK(bias_role_of(*info.bias_of) == info.role);
  }
  CHECK(bias_role_of(Role::head) == Role::head_bias);
  CHECK_FALSE(bias_role_of(Role::embedding));
}

TEST_CASE("shapes follow from axes, of layers that differ, too") {
  ModelConfig config;
  config.arch = &archs::llama;
  config.vocab = 100, config.dim = 24, config.heads = 6, config.kv_heads = 3, config.head_dim = 4, config.value_dim = 5, config.ffn = 50;
  config.set_layers({{3, 50}, {1, 7}});
  using Shape = std::pair<std::int64_t, std::int64_t>;
  CHECK(shape_of(Role::embedding, -1, config) == Shape(100, 24));
  CHECK(shape_of(Role::q, 0, config) == Shape(24, 24));
  CHECK(shape_of(Role::q, 1, config) == Shape(8, 24));
  CHECK(shape_of(Role::k, 1, config) == Shape(4, 24));
  CHECK(shape_of(Role::v_bias, 1, config) == Shape(1, 5));
  CHECK(shape_of(Role::o, 0, config) == Shape(24, 30));
  CHECK(shape_of(Role::down, 1, config) == Shape(24, 7));
  CHECK(rope_heads_of(Role::q_bias, 1, config) == 2);
  CHECK(rope_heads_of(Role::k, 0, config) == 3);
  CHECK(rope_heads_of(Role::v, 0, config) == 0);
}

}  // namespace
}  // namespace bantam::test
