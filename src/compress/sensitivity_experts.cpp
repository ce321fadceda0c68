// Measuring what formats of experts cost, one expert at a time.
#include <algorithm>
#include <cmath>

#include "bantam/calibrate/product.hpp"
#include "bantam/core/parallel.hpp"
#include "row_sample.hpp"
#include "sensitivity_pass.hpp"

namespace bantam::inline v0 {

void SensitivityPass::measure_experts(const LayerWeights& block, std::int64_t layer) {
  const ModelConfig& config = checkpoint_.config();
  const std::vector<nn::RoutedExpert> routed = pass_.route(block, layer);
  std::vector<float> attended = base_;
  run_half(block, layer, Half::mixer, attended, keys_);
  std::vector<nn::RoutedExpert> routed_windows;
  std::span<float> rest(attended);
  for (const std::vector<TokenId>& window : windows_) {
    const std::size_t size = window.size() * static_cast<std::size_t>(config.state_dim());
    const std::span<const float> inputs = config.arch->routes_inputs ? std::span<const float>(base_).subspan(base_.size() - rest.size(), size) : std::span<const float>();
    forward_->run_to(block, layer, group_of(Role::up), rest.first(size), {.layer_inputs = inputs});
    const std::span<const nn::RoutedExpert> some = forward_->route(block);
    routed_windows.insert(routed_windows.end(), some.begin(), some.end());
    rest = rest.subspan(size);
  }
  const auto visits = visits_of(routed_windows, config, block);
  std::vector<float> after = attended;
  run_half(block, layer, Half::feed_forward, after, keys_, base_);

  // Norms stand between what experts make and the hidden states: these are made anew with all experts changed.
  const bool normed_behind = !block.ffn_out_norm.empty() || !block.expert_out_norm.empty();
  std::vector<ExpertsUnit> units;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (tensor_of(i).layer != layer || tensor_of(i).expert < 0) continue;
    const std::vector<FormatCost>& formats = results_[i].formats;
    ExpertsUnit& unit = units.emplace_back(ExpertsUnit{i, measured_formats(formats, options_.measured), std::vector<double>(formats.size(), 0.0), {}, {}});
    for (std::size_t f = 0; f < formats.size(); ++f) {
      const bool stays = std::ranges::all_of(members_[i], [&](const CheckpointTensor* tensor) { return is_own(*tensor, *formats[f].format); });
      results_[i].formats[f].measured = stays || unit.runs[f];
      unit.runs[f] = unit.runs[f] && !stays;
      unit.variants.push_back({i, f, unit.runs[f] ? after : std::vector<float>(), {}, keys_});
      if (normed_behind) unit.changed.push_back(block);
    }
  }
  std::optional<Hessian> of_all;
  for (std::int64_t e = 0; e < std::ssize(visits); ++e) {
    check_cancelled();
    const std::vector<ExpertVisit>& seen = visits[static_cast<std::size_t>(e)];
    const LayerWeights alone = expert_alone(block, e);
    const ExpertInputs inputs = inputs_of(routed, config.router, e, pass_.fitted_tokens(), config.expert_dim());
    const std::vector<float> outputs = outputs_of_expert(*forward_, alone, layer, attended, seen);
    for (std::size_t g = 0; g < input_groups().size(); ++g) {
      std::optional<Hessian> hessian;
      for (ExpertsUnit& unit : units) {
        if (input_group_of(mlp_role_of(tensor_of(unit.result).role)) != g) continue;
        if (!hessian) hessian = pass_.observe_expert(alone, layer, g, inputs, of_all);
        measure_expert(unit, alone, layer, e, *hessian, attended, seen, outputs);
      }
    }
  }
  for (ExpertsUnit& unit : units) {
    for (std::size_t f = 0; f < unit.lost.size(); ++f) {
      if (normed_behind && unit.runs[f]) {
        unit.variants[f].states = attended;
        run_half(unit.changed[f], layer, Half::feed_forward, unit.variants[f].states, keys_, base_);
        unit.changed[f] = {};
      }
      if (unit.runs[f]) run_half(block, layer, Half::end, unit.variants[f].states, keys_);
      results_[unit.result].formats[f].error = unit.size > 0 ? std::sqrt(unit.lost[f] / unit.size) : 0.0;
      if (unit.runs[f]) variants_.push_back(std::move(unit.variants[f]));
    }
    report(results_[unit.result].name);
  }
}

void SensitivityPass::measure_expert(ExpertsUnit& unit, const LayerWeights& alone, std::int64_t layer, std::int64_t expert, Hessian& hessian,
                                     std::span<const float> attended, std::span<const ExpertVisit> visits, std::span<const float> outputs) {
  struct Member {
    const CheckpointTensor* tensor;
    MatrixParts parts;
  };
  std::vector<Member> members;
  const Tensor<float, 2> moments = moments_of(hessian, 0, hessian.columns());
  for (const CheckpointTensor* tensor : members_[unit.result]) {
    if (tensor->expert != expert) continue;
    members.push_back({tensor, MatrixParts(*matrix_of(alone, mlp_role_of(tensor->role)), moments)});
    unit.size += members.back().parts.whole().size;
  }
  const auto width = static_cast<std::size_t>(checkpoint_.config().state_dim());
  for (std::size_t f = 0; f < unit.lost.size(); ++f) {
    const FormatInfo& format = *results_[unit.result].formats[f].format;
    LayerWeights changed = alone;
    bool stays = true;
    for (Member& member : members) {
      if (is_own(*member.tensor, format)) continue;
      const MatrixPart &part = member.parts.part_for(format, unit.runs[f]), &whole = member.parts.whole();
      WeightMatrix rounded = round(*member.tensor, part.original, part.weights, format, hessian);
      if (part.size > 0) unit.lost[f] += squared_loss(part.weights, rounded, moments) * (whole.size / part.size);
      if (&part == &whole) *matrix_of(changed, mlp_role_of(member.tensor->role)) = std::move(rounded);
      stays = false;
    }
    if (!unit.changed.empty() && unit.runs[f]) {
      unit.changed[f].experts.experts[static_cast<std::size_t>(expert)] = changed.mlp;
      continue;
    }
    if (stays || visits.empty() || !unit.runs[f]) continue;
    const std::vector<float> made = outputs_of_expert(*forward_, changed, layer, attended, visits);
    for (std::size_t i = 0; i < visits.size(); ++i) {
      float* states = unit.variants[f].states.data() + visits[i].token * width;
      for (std::size_t c = 0; c < width; ++c) states[c] += visits[i].weight * (made[i * width + c] - outputs[i * width + c]);
    }
  }
}

}  // namespace bantam::inline v0
