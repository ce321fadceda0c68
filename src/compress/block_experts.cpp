// Calibrated rounding of experts: each by the tokens that are routed to it.
#include <algorithm>
#include <cmath>
#include <optional>

#include "bantam/core/parallel.hpp"
#include "block_pass.hpp"

namespace bantam::inline v0 {

namespace {

/// Experts that see fewer tokens than their matrices have columns take what they lack from the layer's other tokens: of what gate and up
/// read from all of them, of what down reads, for which they go through the expert, from so many.
constexpr std::int64_t most_borrowed = 4096;

/// Roles of an expert, and those of the MLP that it is run as.
constexpr std::pair<Role, Role> expert_roles[] = {{Role::expert_gate, Role::gate},           {Role::expert_up, Role::up},
                                                  {Role::expert_down, Role::down},           {Role::expert_gate_bias, Role::gate_bias},
                                                  {Role::expert_up_bias, Role::up_bias},     {Role::expert_down_bias, Role::down_bias}};

/// A token of all samples, and what its second moments count.
struct ExpertInput {
  std::int64_t token = 0;
  float weight = 1;
};

/// The tokens that an expert's second moments are taken of. Only those before `fitted` count; the others judge.
struct ExpertInputs {
  std::vector<ExpertInput> own;  ///< routed to it
  std::vector<ExpertInput> all;  ///< where these are fewer than `wanted` also some of the others, with weights that add up to what is lacking
  std::int64_t seen = 0;         ///< of its own that count
  float share = 0;               ///< the weight of all others, if they were all there
};

ExpertInputs inputs_of(std::span<const std::int32_t> routed, std::int64_t used, std::int32_t expert, std::int64_t fitted, std::int64_t wanted) {
  ExpertInputs result;
  auto& [own, all, seen, share] = result;
  std::vector<std::int64_t> others;
  for (std::int64_t t = 0; t * used < std::ssize(routed); ++t) {
    const auto of_token = routed.subspan(static_cast<std::size_t>(t * used), static_cast<std::size_t>(used));
    if (std::ranges::find(of_token, expert) != of_token.end()) {
      own.push_back({t, 1});
      seen += t < fitted;
    } else if (t < fitted) {
      others.push_back(t);
    }
  }
  all = own;
  if (seen >= wanted || others.empty()) return result;
  const std::int64_t step = div_up<std::int64_t>(std::ssize(others), most_borrowed), borrowed = div_up<std::int64_t>(std::ssize(others), step);
  const float weight = static_cast<float>(std::min<std::int64_t>(wanted - seen, borrowed)) / static_cast<float>(borrowed);
  for (std::int64_t i = 0; i < std::ssize(others); i += step) all.push_back({others[static_cast<std::size_t>(i)], weight});
  std::ranges::sort(all, {}, &ExpertInput::token);
  share = static_cast<float>(std::min<std::int64_t>(wanted - seen, std::ssize(others))) / static_cast<float>(others.size());
  return result;
}

}  // namespace

std::vector<double> BlockPass::expert_worth(const LayerWeights& block, std::int64_t layer, bool frequency) {
  const ModelConfig& config = checkpoint_.config();
  const auto dim = static_cast<std::size_t>(config.dim);
  const auto experts = static_cast<std::size_t>(std::ssize(block.experts.experts));
  struct Visit {
    std::size_t token;
    float weight;
  };
  std::vector<std::vector<Visit>> visits(experts);
  std::size_t token = 0;
  for_each_sample([&](std::span<float> hidden) {
    forward_->run_block(block, layer, BlockStage::mlp_inputs, hidden, cache_);
    const std::span<const nn::RoutedExpert> routed = forward_->route(block);
    const auto used = static_cast<std::size_t>(config.router.used);
    for (std::size_t i = 0; i < routed.size(); ++i) visits[static_cast<std::size_t>(routed[i].expert)].push_back({token + i / used, routed[i].weight});
    token += hidden.size() / dim;
  });
  std::vector<double> worth(experts, 0.0);
  for (std::size_t e = 0; e < experts; ++e) {
    check_cancelled();
    if (frequency) worth[e] = static_cast<double>(visits[e].size());
    if (frequency || visits[e].empty()) continue;
    LayerWeights alone;
    alone.ffn_norm = block.ffn_norm;
    alone.mlp = block.experts.experts[e];
    constexpr std::size_t at_once = 512;
    for (std::size_t first = 0; first < visits[e].size(); first += at_once) {
      const auto some = std::span(visits[e]).subspan(first, std::min(at_once, visits[e].size() - first));
      std::vector<float> states;
      for (const Visit& visit : some) states.insert(states.end(), hidden_.begin() + static_cast<std::ptrdiff_t>(visit.token * dim), hidden_.begin() + static_cast<std::ptrdiff_t>((visit.token + 1) * dim));
      const std::vector<float> before = states;
      forward_->run_block(alone, layer, BlockStage::mlp, states, cache_);
      for (std::size_t i = 0; i < some.size(); ++i) {
        double squares = 0;
        for (std::size_t c = i * dim; c < (i + 1) * dim; ++c) squares += std::pow(static_cast<double>(states[c]) - static_cast<double>(before[c]), 2);
        worth[e] += static_cast<double>(some[i].weight) * std::sqrt(squares);
      }
    }
    worth[e] /= static_cast<double>(visits[e].size());
  }
  return worth;
}

void BlockPass::round_experts(Work& work, std::int64_t layer, RoundedBlock& result) {
  const ModelConfig& config = checkpoint_.config();
  const std::int64_t dim = config.dim, used = config.router.used;
  const auto columns = static_cast<std::size_t>(dim);
  std::vector<std::int32_t> routed;
  for_each_sample([&](std::span<float> hidden) {
    forward_->run_block(work.block, layer, BlockStage::mlp_inputs, hidden, cache_);
    for (const nn::RoutedExpert& one : forward_->route(work.block)) routed.push_back(one.expert);
  });
  const std::size_t first = input_group_of(Role::gate), last = input_group_of(Role::down);
  const std::int64_t fitted = static_cast<std::int64_t>(fitted_) / dim;
  const bool one_by_one = recipe_.options().true_sequential;
  for (const std::size_t g : {first, last}) seen_[g] = {};
  std::string starved;
  std::int64_t starved_count = 0;
  std::optional<Hessian> of_all;  // what gate and up read of all tokens: the same for every expert
  for (std::int64_t e = 0; e < std::ssize(work.block.experts.experts); ++e) {
    check_cancelled();
    Work own;
    own.block.ffn_norm = work.block.ffn_norm;
    own.copied.insert(Role::ffn_norm);  // no scales are folded into what all experts read
    own.block.mlp = work.block.experts.experts[static_cast<std::size_t>(e)];
    for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
      if (tensor.layer != layer || tensor.expert != e) continue;
      add(own, std::ranges::find(expert_roles, tensor.role, &std::pair<Role, Role>::first)->second, tensor);
    }
    const ExpertInputs expert = inputs_of(routed, used, static_cast<std::int32_t>(e), fitted, dim);
    if (expert.seen < dim) {
      constexpr std::int64_t most_named = 8;
      if (starved_count++ < most_named) starved += message(starved.empty() ? "" : ", ", e, " (", expert.seen, ")");
    }
    if (expert.share > 0 && !of_all) {
      of_all.emplace(dim);
      for_each_sample([&](std::span<float> hidden) {
        forward_->run_block(work.block, layer, BlockStage::mlp_inputs, hidden, cache_);
        if (!is_held_out(hidden)) of_all->add(forward_->stage_inputs());
      });
    }
    const auto observe = [&](std::size_t group) {
      const std::vector<ExpertInput>& inputs = group == first ? expert.own : expert.all;
      Hessian hessian(first_of(own.block, input_groups()[group])->columns());
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
        forward_->run_block(own.block, layer, input_groups()[group].inputs, states, cache_);
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
      if (group == first && expert.share > 0) hessian.blend(*of_all, expert.share);
      return hessian;
    };
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
    for (const auto& [role, as] : expert_roles) {
      if (own.changed.contains(as) && !info_of(as).is_matrix() && !vector_of(own.block, as)->empty()) result.vectors[{role, layer, e}] = *vector_of(own.block, as);
    }
  }
  for (const std::size_t g : {first, last}) {
    InputReport& report = result.inputs.emplace_back(InputReport{{}, seen_[g].range(), central_range(seen_[g], 99.9)});
    for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
      const bool here = tensor.layer == layer && tensor.expert == 0;
      const auto role = std::ranges::find(expert_roles, tensor.role, &std::pair<Role, Role>::first);
      if (here && tensor.is_matrix && role != std::end(expert_roles) && input_group_of(role->second) == g) report.matrices.push_back(tensor.name + " and all experts");
    }
  }
  if (starved_count > 0) {
    result.warnings.push_back(message("layer ", layer, ": ", starved_count, " of ", work.block.experts.experts.size(), " experts saw fewer calibration tokens than the ", dim,
                                      " columns of their matrices (expert (tokens): ", starved, starved_count > 8 ? ", ..." : "",
                                      "): other tokens of the layer fill up their second moments"));
  }
}

}  // namespace bantam::inline v0
