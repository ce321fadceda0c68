// Calibrated rounding of experts: each by the tokens that are routed to it.
#include <algorithm>
#include <cmath>
#include <optional>

#include "bantam/core/parallel.hpp"
#include "block_pass.hpp"

namespace bantam::inline v0 {

std::vector<nn::RoutedExpert> BlockPass::route(const LayerWeights& block, std::int64_t layer) {
  std::vector<nn::RoutedExpert> all;
  for_each_sample([&](std::span<float> hidden) {
    forward_->run_block(block, layer, BlockStage::mlp_inputs, hidden, cache_);
    const std::span<const nn::RoutedExpert> routed = forward_->route(block);
    all.insert(all.end(), routed.begin(), routed.end());
  });
  return all;
}

std::vector<double> BlockPass::expert_worth(const LayerWeights& block, std::int64_t layer, bool frequency) {
  const auto dim = static_cast<std::size_t>(checkpoint_.config().dim);
  const auto visits = visits_of(route(block, layer), checkpoint_.config().router.used, block.experts.experts.size());
  std::vector<double> worth(visits.size(), 0.0);
  for (std::size_t e = 0; e < visits.size(); ++e) {
    check_cancelled();
    if (frequency) worth[e] = static_cast<double>(visits[e].size());
    if (frequency || visits[e].empty()) continue;
    const LayerWeights alone = expert_alone(block, static_cast<std::int64_t>(e));
    constexpr std::size_t at_once = 512;
    for (std::size_t first = 0; first < visits[e].size(); first += at_once) {
      const auto some = std::span(visits[e]).subspan(first, std::min(at_once, visits[e].size() - first));
      const std::vector<float> added = outputs_of_expert(*forward_, cache_, alone, layer, hidden_, some);
      for (std::size_t i = 0; i < some.size(); ++i) {
        double squares = 0;
        for (std::size_t c = i * dim; c < (i + 1) * dim; ++c) squares += std::pow(static_cast<double>(added[c]), 2);
        worth[e] += static_cast<double>(some[i].weight) * std::sqrt(squares);
      }
    }
    worth[e] /= static_cast<double>(visits[e].size());
  }
  return worth;
}

Hessian BlockPass::observe_expert(const LayerWeights& alone, std::int64_t layer, std::size_t group, const ExpertInputs& expert, std::optional<Hessian>& of_all) {
  const bool reads_all = !input_groups()[group].adds;  // what gate and up read of a token, all experts read of it
  const std::vector<ExpertInput>& inputs = reads_all ? expert.own : expert.all;
  const std::int64_t fitted = fitted_tokens();
  const auto columns = static_cast<std::size_t>(checkpoint_.config().dim);
  Hessian hessian(first_of(alone, input_groups()[group])->columns());
  judges_[group].clear();
  constexpr std::size_t at_once = 512;
  std::vector<float> states;
  for (std::size_t begin = 0; begin < inputs.size();) {
    // Tokens that are held out are not run with others.
    const bool fits = inputs[begin].token < fitted;
    std::size_t end = begin;
    states.clear();
    for (; end < inputs.size() && end - begin < at_once && (inputs[end].token < fitted) == fits; ++end) {
      const auto row = std::span(hidden_).subspan(static_cast<std::size_t>(inputs[end].token) * columns, columns);
      states.insert(states.end(), row.begin(), row.end());
    }
    forward_->run_block(alone, layer, input_groups()[group].inputs, states, cache_);
    const TensorView<const float, 2> x = forward_->stage_inputs();
    if (fits) {
      Tensor<float, 2> weighed({x.extent(0), x.extent(1)});
      for (std::int64_t t = 0; t < x.extent(0); ++t) {
        const float factor = std::sqrt(inputs[begin + static_cast<std::size_t>(t)].weight);
        for (std::int64_t c = 0; c < x.extent(1); ++c) weighed(t, c) = factor * x(t, c);
      }
      hessian.add(weighed);
      count(group, x);
    }
    keep_judges(group, std::span(hidden_).subspan(static_cast<std::size_t>(inputs[begin].token) * columns), x);
    begin = end;
  }
  if (!reads_all || expert.share == 0) return hessian;
  if (!of_all) {
    of_all.emplace(checkpoint_.config().dim);
    for_each_sample([&](std::span<float> hidden) {
      forward_->run_block(alone, layer, BlockStage::mlp_inputs, hidden, cache_);
      if (!is_held_out(hidden)) of_all->add(forward_->stage_inputs());
    });
  }
  hessian.blend(*of_all, expert.share);
  return hessian;
}

void BlockPass::round_experts(Work& work, std::int64_t layer, RoundedBlock& result) {
  const std::int64_t dim = checkpoint_.config().dim, used = checkpoint_.config().router.used;
  const std::vector<nn::RoutedExpert> routed = route(work.block, layer);
  const std::size_t first = input_group_of(Role::gate), last = input_group_of(Role::down);
  const bool one_by_one = recipe_.options().true_sequential;
  for (const std::size_t g : {first, last}) seen_[g] = {};
  std::string starved;
  std::int64_t starved_count = 0;
  std::optional<Hessian> of_all;
  for (std::int64_t e = 0; e < std::ssize(work.block.experts.experts); ++e) {
    check_cancelled();
    Work own;
    own.block = expert_alone(work.block, e);
    own.copied.insert(Role::ffn_norm);  // no scales are folded into what all experts read
    for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
      if (tensor.layer == layer && tensor.expert == e) add(own, mlp_role_of(tensor.role), tensor);
    }
    const ExpertInputs expert = inputs_of(routed, used, e, fitted_tokens(), dim);
    if (expert.seen < dim) {
      constexpr std::int64_t most_named = 8;
      if (starved_count++ < most_named) starved += message(starved.empty() ? "" : ", ", e, " (", expert.seen, ")");
    }
    const auto observe = [&](std::size_t group) { return observe_expert(own.block, layer, group, expert, of_all); };
    std::vector<Hessian> hessians;
    if (folds_scales(recipe_) || !one_by_one) {
      for (std::size_t g = 0; g < input_groups().size(); ++g) hessians.push_back(g == first || g == last ? observe(g) : Hessian(0));
    }
    if (folds_scales(recipe_)) scale(own, hessians);
    for (const std::size_t g : {first, last}) {
      Tensor<float, 2> drift;
      const bool known = !hessians.empty() && (!one_by_one || g == first);
      Hessian hessian = known ? std::move(hessians[g]) : observe(g);
      round_group(own, g, hessian, drift, result);
    }
    work.block.experts.experts[static_cast<std::size_t>(e)] = own.block.mlp;
    // Biases that scales were folded into.
    for_each_expert_role([&](Role role, Role as) {
      if (own.changed.contains(as) && !info_of(as).is_matrix() && !vector_of(own.block, as)->empty()) result.vectors[{role, layer, e}] = *vector_of(own.block, as);
    });
  }
  for (const std::size_t g : {first, last}) {
    InputReport& report = result.inputs.emplace_back(InputReport{{}, seen_[g].range(), central_range(seen_[g], 99.9)});
    for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
      const bool here = tensor.layer == layer && tensor.expert == 0 && tensor.is_matrix;
      if (here && input_group_of(mlp_role_of(tensor.role)) == g) report.matrices.push_back(tensor.name + " and all experts");
    }
  }
  if (starved_count > 0) {
    result.warnings.push_back(message("layer ", layer, ": ", starved_count, " of ", work.block.experts.experts.size(), " experts saw fewer calibration tokens than the ", dim,
                                      " columns of their matrices (expert (tokens): ", starved, starved_count > 8 ? ", ..." : "",
                                      "): other tokens of the layer fill up their second moments"));
  }
}

}  // namespace bantam::inline v0
