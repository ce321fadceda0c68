// Calibrated rounding, block by block.
#include "rounding_pass.hpp"

#include <algorithm>

#include "bantam/calibrate/product.hpp"
#include "bantam/compress/nearest.hpp"
#include "bantam/compress/smooth.hpp"
#include "bantam/core/parallel.hpp"
#include "calibrate/fold.hpp"

namespace bantam::inline v0 {

namespace {

/// Only GPTQ, and SparseGPT, which is GPTQ without rounding, make up for what came before, and only for inputs that are those
/// of the rounded model.
bool follows_original(const Recipe& recipe) {
  const MethodOptions& options = recipe.options();
  const bool makes_up = rounds_by_gptq(recipe.method()) || (options.pruning && options.pruning->method == PruneMethod::sparsegpt);
  return makes_up && options.true_sequential && options.follow_original > 0;
}

bool is_sparse(const LayerWeights& block) { return !block.experts.experts.empty(); }

/// SmoothQuant's, AWQ's: folded into what makes the inputs.
bool folds_scales(const Recipe& recipe) noexcept {
  return recipe.options().smooth || recipe.method() == Method::awq || recipe.method() == Method::awq_gptq;
}

}  // namespace

RoundingPass::RoundingPass(const ModelSource& source, const Recipe& recipe, const Calibration& calibration, bool judged)
    : BlockPass(source, calibration, judged), recipe_(recipe) {
  // Targets of what a block adds are states; a norm behind it, or a block beside it, stands between.
  if (follows_original(recipe) && checkpoint_.config().arch->norms_before_blocks()) follow();
}

Rounded RoundingPass::judged(Rounded&& rounded, const WeightMatrix& original, std::size_t group) const {
  if (judges_[group].empty()) return std::move(rounded);
  const std::int64_t columns = original.columns();
  const TensorView<const float, 2> inputs(judges_[group].data(), {static_cast<std::int64_t>(judges_[group].size()) / columns, columns});
  rounded.output_error = output_error(inputs, original, rounded.matrix);
  return std::move(rounded);
}

Tensor<float, 2> RoundingPass::residual_of(const WeightMatrix& matrix, std::size_t group, Tensor<float, 2>& input_error) const {
  const auto share = static_cast<float>(recipe_.options().follow_original);
  if (input_groups()[group].adds) {  // one matrix reads
    for (std::int64_t i = 0; i < input_error.size(); ++i) input_error.data()[i] *= share;
    return std::move(input_error);
  }
  const Tensor<float, 2> weights = matrix.dequantize();
  Tensor<float, 2> residual({weights.extent(0), weights.extent(1)});
  for_products(weights, input_error.view().transposed(), false, [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) residual(row, first + static_cast<std::int64_t>(i)) = share * values[i];
  });
  return residual;
}

RoundingPass::Work RoundingPass::begin(std::int64_t layer) const {
  Work work;
  work.block = *source_.acquire(layer);
  for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
    if (tensor.layer == layer && tensor.expert < 0) add(work, tensor.role, tensor);
  }
  if (!original_states().empty()) work.original = original(work, layer);
  return work;
}

void RoundingPass::add(Work& work, Role role, const CheckpointTensor& tensor) const {
  work.tensors[role] = &tensor;
  if (source_.rotated() || is_pruned(recipe_, tensor)) work.changed.insert(role);
  if (!tensor.is_matrix || work.changed.contains(role)) return;
  const FormatInfo& format = recipe_.format_of(tensor.name, false);
  if (&format == &tensor.format() && !format.is_float) work.copied.insert(role);
}

LayerWeights RoundingPass::original(const Work& work, std::int64_t layer) const {
  LayerWeights block = work.block;
  const FormatInfo& bytes = format_info<Int8<32>>();
  for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
    // Experts are run over once, before they are rounded: a second copy of all of them would take more memory than anything else.
    if (tensor.layer != layer || !tensor.is_matrix || tensor.expert >= 0) continue;
    WeightMatrix& matrix = *matrix_of(block, tensor);
    const bool coarse = recipe_.format_of(tensor.name, false).bits_per_weight < 6 || recipe_.pruning_of(tensor.name);
    if (matrix.format().is_float && coarse) matrix = WeightMatrix::quantize(matrix.dequantize(), bytes);
  }
  return block;
}

void RoundingPass::scale(Work& work, std::vector<Hessian>& hessians) {
  for (std::size_t g = 0; g < input_groups().size(); ++g) {
    const InputGroup& group = input_groups()[g];
    std::vector<Role> readers;
    std::ranges::copy_if(group.roles, std::back_inserter(readers), [&](Role role) { return !matrix_of(work.block, role)->empty(); });
    std::vector<Role> touched = readers;
    const Role source = source_of(work.block, group);
    touched.push_back(source);
    // What is clamped cannot be scaled.
    const bool clamped = source == Role::up && checkpoint_.config().gate == ops::Gate::clamped_silu;
    if (clamped || !can_fold(work.block, group, *checkpoint_.config().arch) || std::ranges::any_of(touched, [&](Role role) { return work.copied.contains(role); })) continue;
    std::vector<Tensor<float, 2>> weights;
    for (const Role role : readers) weights.push_back(matrix_of(work.block, role)->dequantize());
    std::vector<float> scales;
    if (recipe_.options().smooth) {
      scales = smooth_scales(std::vector<TensorView<const float, 2>>(weights.begin(), weights.end()), hessians[g].largest(), *recipe_.options().smooth);
    } else {
      std::vector<AwqReader> all;
      for (std::size_t i = 0; i < weights.size(); ++i) all.push_back({weights[i], &recipe_.format_of(work.tensors.at(readers[i])->name, false)});
      AwqScales found = naming(work.tensors.at(readers[0])->name, [&] { return awq_scales(all, hessians[g], recipe_.options().awq); });
      if (!(found.loss < found.unscaled_loss)) continue;
      scales = std::move(found.scales);
    }
    fold(work.block, group, scales);
    hessians[g].divide_inputs(scales);
    for (std::size_t i = 0; i < judges_[g].size(); ++i) judges_[g][i] /= scales[i % scales.size()];
    work.scales[g] = scales;
    work.changed.insert(touched.begin(), touched.end());
    if (const auto bias = bias_role_of(source)) work.changed.insert(*bias);
    if (source == Role::attention_norm) work.changed.insert(Role::attention_norm_bias);
    if (source == Role::ffn_norm) work.changed.insert(Role::ffn_norm_bias);
  }
}

namespace {

/// GPTQ with what the recipe removes, or, where the moments cannot be factorized, rounding of what is left to nearest.
WeightMatrix gptq_or_nearest(const std::string& name, const WeightMatrix& matrix, Hessian& hessian, bool last, const FormatInfo& format,
                             const Recipe& recipe, Tensor<float, 2>&& residual, std::vector<std::string>& warnings) {
  const GptqOptions& options = recipe.options().gptq;
  const std::optional<Pruning> pruning = recipe.pruning_of(name);
  const std::vector<float> squares = hessian.mean_squares();
  const auto silent = std::ranges::count(squares, 0.0f);
  if (silent > 0) warnings.push_back(message(name, ": ", silent, " of ", squares.size(), " inputs are always 0 in the calibration text: so are their weights now"));
  Mask mask;
  GptqZeros zeros;
  if (pruning && pruning->method == PruneMethod::sparsegpt) {
    zeros.choose = pruning->sparsity;
  } else if (pruning) {
    mask = mask_of(*pruning, matrix.dequantize(), squares);
    zeros.mask = &mask;
  }
  try {
    GptqResult result = gptq(matrix.dequantize(), last ? std::move(hessian) : hessian.clone(), format, options, std::move(residual), zeros);
    if (result.damping > options.damping) {
      warnings.push_back(message(name, ": second moments are singular: damping raised from ", options.damping, " to ", result.damping));
    }
    return std::move(result.weights);
  } catch (const Error& error) {
    if (error.code() != Errc::corrupt) throw;
    warnings.push_back(message(name, ": second moments cannot be factorized: ", zeros.choose.any() ? "pruned as by wanda, " : "", "rounded to nearest"));
    const Tensor<float, 2> weights = matrix.dequantize();
    if (!pruning) return nearest(weights, format, {.importance = squares});
    if (zeros.mask == nullptr) mask = mask_of(*pruning, weights, squares);
    const Tensor<float, 2> left = masked(weights, mask);
    return format.is_float ? WeightMatrix::quantize(left, format) : nearest(left, format, {.importance = squares});
  }
}

}  // namespace

WeightMatrix RoundingPass::round(const std::string& name, const WeightMatrix& matrix, Hessian& hessian, bool last, const FormatInfo& format,
                              Role role, std::vector<std::string>& warnings, Tensor<float, 2>&& residual) const {
  const std::optional<Pruning> pruning = recipe_.pruning_of(name);
  if (rounds_by_gptq(recipe_.method()) && !format.is_float) return gptq_or_nearest(name, matrix, hessian, last, format, recipe_, std::move(residual), warnings);
  if (!pruning) return round_left(matrix.dequantize(), hessian, format, role);
  if (pruning->method != PruneMethod::sparsegpt) {
    const Tensor<float, 2> weights = matrix.dequantize();
    return round_left(masked(weights, mask_of(*pruning, weights, hessian.mean_squares())), hessian, format, role);
  }
  const WeightMatrix left = gptq_or_nearest(name, matrix, hessian, false, format_info<F32Format>(), recipe_, std::move(residual), warnings);
  return round_left(left.dequantize(), hessian, format, role);
}

WeightMatrix RoundingPass::round_left(const Tensor<float, 2>& weights, const Hessian& hessian, const FormatInfo& format, Role role) const {
  if (format.is_float) return WeightMatrix::quantize(weights, format);
  if (recipe_.method() == Method::awq && recipe_.options().awq.clip && can_clip(format)) {
    // Clipping q and k harms: their errors meet in a product, and pass through the softmax. The authors leave them, too.
    if (role == Role::q || role == Role::k) return nearest(weights, format, {.search = GridSearch::range});
    return nearest(awq_clip(weights, hessian, format), format, {.search = GridSearch::range});
  }
  const std::vector<float> importance = hessian.mean_squares();
  return nearest(weights, format, nearest_options(recipe_.options().clip.value_or(Clip{}), importance));
}

void RoundingPass::round_group(Work& work, std::size_t g, Observed& seen, RoundedBlock& result) {
  const InputGroup& group = input_groups()[g];
  for (const Role role : group.roles) {
    WeightMatrix& matrix = *matrix_of(work.block, role);
    if (matrix.empty() || work.copied.contains(role)) continue;
    const CheckpointTensor& tensor = *work.tensors.at(role);
    const FormatInfo& format = recipe_.format_of(tensor.name, false);
    if (format.is_float && !work.changed.contains(role)) continue;
    Rounded& rounded = result.matrices[tensor];
    if (format.is_float && !recipe_.pruning_of(tensor.name)) {
      rounded = round_matrix(tensor.name, matrix.dequantize(), format);
    } else {
      WeightMatrix made = naming(tensor.name, [&] {
        return round(tensor.name, matrix, seen.hessian, role == group.roles.back(), format, role, result.warnings,
                     seen.input_error.size() == 0 ? Tensor<float, 2>() : residual_of(matrix, g, seen.input_error));
      });
      rounded = judged(measured(tensor.name, matrix, std::move(made)), matrix, g);
    }
    matrix = rounded.matrix;
  }
}

void RoundingPass::round_ungrouped(Work& work, RoundedBlock& result) {
  for (const auto& [role, tensor] : work.tensors) {
    if (!info_of(role).is_matrix() || !info_of(role).is_ungrouped() || work.copied.contains(role)) continue;
    WeightMatrix& matrix = *matrix_of(work.block, role);
    const FormatInfo& format = recipe_.format_of(tensor->name, false);
    if (format.is_float && !work.changed.contains(role)) continue;
    const Rounded& rounded = result.matrices[*tensor] = round_matrix(tensor->name, matrix.dequantize(), format);
    matrix = rounded.matrix;
  }
}

void RoundingPass::round_experts(Work& work, std::int64_t layer, RoundedBlock& result) {
  const std::int64_t dim = checkpoint_.config().expert_dim();
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
    const ExpertInputs expert = inputs_of(routed, checkpoint_.config().router, e, fitted_tokens(), dim);
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
      const bool known = !hessians.empty() && (!one_by_one || g == first);
      Observed seen{known ? std::move(hessians[g]) : observe(g), {}};
      round_group(own, g, seen, result);
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

RoundedBlock RoundingPass::round_block(std::int64_t layer) {
  Work work = begin(layer);
  RoundedBlock result;
  round_ungrouped(work, result);
  const bool one_by_one = recipe_.options().true_sequential;
  std::vector<Hessian> hessians;
  if (folds_scales(recipe_) || !one_by_one) hessians = observe_all(work.block, layer);
  if (folds_scales(recipe_)) scale(work, hessians);
  // What the first group reads, no rounding in this block will change; of what follows the original, the error of the inputs is wanted besides.
  if (one_by_one && !hessians.empty()) hessians.erase(hessians.begin() + (original_states().empty() ? 1 : 0), hessians.end());
  for (std::size_t g = 0; g < input_groups().size(); ++g) {
    const InputGroup& group = input_groups()[g];
    if (first_of(work.block, group) != nullptr) {
      // Beside experts no MLP makes up for anything: what they add is not known yet.
      const bool follows = !original_states().empty() && !(group.half == Half::feed_forward && is_sparse(work.block));
      Observed seen = g < hessians.size() ? Observed{std::move(hessians[g]), {}}
                                        : observe(work.block, layer, g, follows ? &work.original : nullptr, work.scales[g]);
      if (&group == last_of(work.block, Half::feed_forward) && follows) work.original = {};  // is past this block; GPTQ of down takes most memory of all
      round_group(work, g, seen, result);
      InputReport& inputs = result.inputs.emplace_back(InputReport{{}, seen_[g].range(), central_range(seen_[g], 99.9)});
      for (const Role role : group.roles) {
        if (!matrix_of(work.block, role)->empty()) inputs.matrices.push_back(work.tensors.at(role)->name);
      }
    }
    const bool ends_half = g + 1 == input_groups().size() || input_groups()[g + 1].half != group.half;
    if (!ends_half) continue;
    if (group.half == Half::feed_forward && is_sparse(work.block)) round_experts(work, layer, result);
    // What the rounded half makes is what the next half reads.
    advance(work.block, layer, group.half);
    if (group.half == Half::mixer && is_sparse(work.block)) {
      advance_original(work.original, layer, Half::feed_forward);  // nothing beside experts follows it
      work.original = {};
    }
  }
  for (const Role role : work.changed) {
    if (info_of(role).stays_float()) {
      const CheckpointTensor& tensor = *work.tensors.at(role);
      result.matrices[tensor] = round_matrix(tensor.name, matrix_of(work.block, role)->dequantize(), recipe_.format_of(tensor.name, false));
    }
    const std::vector<float>* vector = vector_of(work.block, role);
    if (vector != nullptr && !vector->empty()) result.vectors[TensorId(role, layer)] = *vector;
  }
  return result;
}

void RoundingPass::skip_block(std::int64_t layer, const RoundedBlock& done) {
  Work work = begin(layer);
  for (const auto& [id, rounded] : done.matrices) *matrix_of(work.block, id) = rounded.matrix;
  for (const auto& [id, vector] : done.vectors) *vector_of(work.block, id) = vector;
  for (const Half half : halves) advance_original(work.original, layer, half);
  advance_over(work.block, layer);
}

}  // namespace bantam::inline v0
