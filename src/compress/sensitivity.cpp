// Measuring divergences, block by block.
#include "bantam/compress/sensitivity.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/calibrate/product.hpp"
#include "bantam/compress/nearest.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/model/divergence.hpp"
#include "gguf_output.hpp"
#include "model_shares.hpp"
#include "output.hpp"
#include "plan.hpp"
#include "row_sample.hpp"
#include "sensitivity_pass.hpp"

namespace bantam::inline v0 {

namespace {

/// Errors halve from one to the next or the one after. Trellises are the best for their bits; integers hold zeros, which pruned weights want,
/// and rows that do not fill a trellis' groups.
constexpr std::string_view ladder[] = {"t1h.g128", "t2.g128",  "i2z.g64", "t2h.g128", "i2z.g32", "t3.g128", "i3z.g128", "i3z.g32",
                                       "i4z.g128", "iq4xs.g32", "i4z.g32", "i5.g32",   "q6_k",    "i8.g32",  "f16"};
constexpr std::string_view gguf_ladder[] = {"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "q2_k", "iq3_xxs", "iq3_s",
                                            "q3_k",  "iq4_xs", "q4_k",   "q5_k",   "q6_k",  "q8_0", "f16"};

/// What is not measured gets the format that the recipe gives it: tables whose rows all layers read, learned positions, and a layer that takes
/// no part in passes.
bool keeps_format(const CheckpointTensor& tensor) {
  return tensor.is_drafting || (info_of(tensor.role).is_table() && tensor.role != Role::embedding && tensor.role != Role::head);
}

/// Whether rows of a trellis would be filled up by a fifth or more: integers have smaller groups, and as little error in as many bytes.
bool is_padded(const FormatInfo& format, std::int64_t columns) {
  return format.step_bits != 0 && static_cast<double>(format.panel_bytes(columns)) > 1.2 * format.bits_per_weight / 8 * static_cast<double>(panel_rows * columns);
}

std::vector<const FormatInfo*> candidates_of(const CheckpointTensor& tensor, const Recipe& recipe, Target target,
                                             const std::vector<const FormatInfo*>& wanted) {
  if (const FormatInfo* kept = recipe.exception_of(tensor.name))
    return {target == Target::gguf ? &gguf_format(tensor, *kept) : kept};
  const bool pruned = is_pruned(recipe, tensor);
  std::vector<const FormatInfo*> candidates;
  const auto add = [&](const FormatInfo& format) {
    if (pruned && !holds_zero(format)) return;
    if (std::ranges::find(candidates, &format) == candidates.end()) candidates.push_back(&format);
  };
  for (const FormatInfo* format : wanted) add(target == Target::gguf ? gguf_format(tensor, *format) : *format);
  const FormatInfo& own = tensor.format();
  // What is stored in 32 bits is seldom worth them; whoever thinks so says --candidates f32.
  if (own.bits_per_weight < 32 &&
      (target != Target::gguf || (source_type_of(own) != nullptr && &gguf_format(tensor, own) == &own)))
    add(own);
  std::ranges::stable_sort(candidates, {}, [](const FormatInfo* f) { return f->bits_per_weight; });
  return candidates;
}

}  // namespace

std::vector<bool> measured_formats(const std::vector<FormatCost>& formats, int count) {
  std::vector<std::size_t> quick, slow;
  for (std::size_t f = 0; f < formats.size(); ++f) {
    if (!formats[f].format->is_float) (formats[f].format->step_bits == 0 ? quick : slow).push_back(f);
  }
  std::vector<std::size_t>& from = quick.empty() ? slow : quick;
  if (from.empty()) from.push_back(0);
  const std::int64_t last = std::ssize(from) - 1;
  std::vector<bool> result(formats.size());
  for (int i = 0; i < count; ++i)
    result[from[static_cast<std::size_t>(count > 1 ? (last * i + (count - 1) / 2) / (count - 1) : last / 2)]] = true;
  return result;
}

std::vector<bool> measured_of_tables(const std::vector<FormatCost>& formats) {
  std::vector<bool> result;
  for (const FormatCost& cost : formats) result.push_back(!is_searched(*cost.format));
  const auto is_quick = [](const FormatCost& cost) { return !cost.format->is_float && !is_searched(*cost.format); };
  if (std::ranges::none_of(formats, is_quick)) return std::vector<bool>(formats.size(), true);
  const auto coarsest = std::ranges::find(formats, 0, [](const FormatCost& cost) { return cost.format->step_bits; });
  result[static_cast<std::size_t>(coarsest - formats.begin())] = true;
  return result;
}

double squared_loss(const Tensor<float, 2>& weights, const WeightMatrix& rounded, const Tensor<float, 2>& moments) {
  Tensor<float, 2> differences = rounded.dequantize();
  for (std::int64_t i = 0; i < weights.size(); ++i) differences.data()[i] = weights.data()[i] - differences.data()[i];
  return std::max(0.0, squared_outputs(differences, moments));
}

SensitivityPass::SensitivityPass(const Checkpoint& checkpoint, const Recipe& recipe, const Calibration& calibration, Target target,
                                 const SensitivityOptions& options, const ProgressFn& progress)
    : source_(checkpoint, recipe.options().rotation),
      checkpoint_(source_.checkpoint()),
      recipe_(with_shares(source_, recipe.for_model(source_.checkpoint()))),
      options_(options),
      progress_(progress),
      pass_(source_, recipe_, calibration),
      keys_(checkpoint_.config()),
      embeddings_(source_), streams_(source_) {
  if (!checkpoint.config().has_head) fail(Errc::unsupported, "sensitivity: ", checkpoint.config().arch->name, ": expected a model that makes logits, by which formats are chosen; what works: one recipe for all layers, and --keep");
  if (checkpoint.config().has_source()) fail(Errc::unsupported, "sensitivity: ", checkpoint.config().arch->name, ": of a decoder behind an encoder: not yet; what works: one recipe for all layers, and --keep");
  list_results(recipe, target);
  choose_windows(calibration);
  const auto longest = std::ranges::max_element(windows_, {}, &std::vector<TokenId>::size);
  forward_ = std::make_unique<Forward>(checkpoint.config(), none_, std::ssize(*longest), 0);
}

std::vector<Sensitivity> SensitivityPass::run() {
  begin();
  for (std::int64_t layer = 0; layer < checkpoint_.config().layers; ++layer) measure_block(layer);
  finish();
  interpolate();
  return std::move(results_);
}

/// Every matrix by itself, but for experts of a layer: those that read the same take one format, if the same formats are open to them.
void SensitivityPass::list_results(const Recipe& recipe, Target target) {
  std::vector<const FormatInfo*> wanted = options_.candidates;
  if (wanted.empty()) {
    const auto names = target == Target::gguf ? std::span<const std::string_view>(gguf_ladder) : std::span<const std::string_view>(ladder);
    for (const std::string_view name : names) wanted.push_back(&find_format(name));
  }
  std::size_t first = 0;  // result of the layer under way
  for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
    if (!tensor.is_matrix) continue;
    Sensitivity one{tensor.name, {}};
    const bool has_one = info_of(tensor.role).stays_float() || keeps_format(tensor);
    std::vector<const FormatInfo*> of_shape = wanted;
    if (options_.candidates.empty()) std::erase_if(of_shape, [&](const FormatInfo* format) { return is_padded(*format, tensor.columns); });
    const std::vector<const FormatInfo*> candidates =
        has_one ? std::vector{&format_in(target, tensor, recipe_, checkpoint_.config())} : candidates_of(tensor, recipe, target, of_shape);
    for (const FormatInfo* format : candidates) one.formats.push_back({.format = format});
    const auto joins = [&](std::size_t i) {
      const CheckpointTensor& other = tensor_of(i);
      return other.expert >= 0 && input_group_of(mlp_role_of(other.role)) == input_group_of(mlp_role_of(tensor.role)) &&
             std::ranges::equal(results_[i].formats, one.formats, {}, &FormatCost::format, &FormatCost::format);
    };
    if (!results_.empty() && tensor_of(first).layer != tensor.layer) first = results_.size();
    std::size_t at = first;
    while (at < results_.size() && !(tensor.expert >= 0 && joins(at))) ++at;
    if (at < results_.size()) {
      results_[at].others.push_back(tensor.name);
      members_[at].push_back(&tensor);
      continue;
    }
    results_.push_back(std::move(one));
    members_.push_back({&tensor});
  }
}

/// Beginnings of samples from all over the calibration text, as many as there is room for.
void SensitivityPass::choose_windows(const Calibration& calibration) {
  std::int64_t variants = 0;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const std::vector<FormatCost>& formats = results_[i].formats;
    const std::vector<bool> measured = info_of(tensor_of(i).role).is_table() ? measured_of_tables(formats) : measured_formats(formats, options_.measured);
    variants += std::ranges::count(measured, true);
  }
  const std::int64_t token_bytes = (variants + 1) * checkpoint_.config().state_dim() * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t wanted = std::clamp<std::int64_t>(options_.memory / token_bytes,
                                                       std::min<std::int64_t>(512, options_.tokens), options_.tokens);
  std::vector<const std::vector<TokenId>*> samples;
  for (const std::vector<TokenId>& sample : calibration.samples) {
    if (!sample.empty()) samples.push_back(&sample);
  }
  const std::int64_t length = std::min<std::int64_t>(longest_window, static_cast<std::int64_t>(samples[0]->size()));
  const std::size_t count = std::clamp<std::size_t>(static_cast<std::size_t>(wanted / length), 1, samples.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<TokenId>& sample = *samples[count > 1 ? (samples.size() - 1) * i / (count - 1) : 0];
    const auto size =
        static_cast<std::ptrdiff_t>(std::min<std::size_t>(static_cast<std::size_t>(longest_window), sample.size()));
    check_positions(checkpoint_.config(), size, "sensitivity: a sample");
    windows_.emplace_back(sample.begin(), sample.begin() + size);
  }
}

void SensitivityPass::report(const std::string& name) {
  ++done_;
  if (!progress_) return;
  const auto total = static_cast<std::int64_t>(results_.size());
  const double left = watch_.seconds() * static_cast<double>(total - done_) / static_cast<double>(done_);
  if (!progress_({done_, total, name, 0, left})) fail(Errc::cancelled, "sensitivity: cancelled after ", name);
}

std::vector<float> SensitivityPass::embed(FunctionRef<void(TokenId, std::span<float>, RowCodes&)> read_row) const {
  const auto dim = static_cast<std::size_t>(checkpoint_.config().dim), width = static_cast<std::size_t>(checkpoint_.config().state_dim());
  std::vector<float> states;
  RowCodes scratch;
  for (const std::vector<TokenId>& window : windows_) {
    std::int64_t position = 0;
    for (const TokenId id : window) {
      states.resize(states.size() + width);
      const std::span<float> row = std::span(states).last(width).first(dim);
      read_row(id, row, scratch);
      source_.place(position++, row, scratch);
    }
  }
  streams_.spread(states);
  return states;
}

Rounded SensitivityPass::round_table(std::size_t result, const FormatInfo& format, std::int64_t step) const {
  const CheckpointTensor& tensor = tensor_of(result);
  CheckpointTensor some = tensor;
  some.rows = div_up(tensor.rows, step);
  return round_alone(recipe_, some, format,
                     [&](std::int64_t row, std::span<float> to, RowCodes& scratch) {
                       source_.read_row(tensor, row * step, to, scratch);
                     });
}

std::optional<Rounded> SensitivityPass::begin_table(std::size_t result, std::size_t format) {
  FormatCost& cost = results_[result].formats[format];
  const bool own = is_own(tensor_of(result), *cost.format);
  cost.measured = own || measured_of_tables(results_[result].formats)[format];
  if (own) return std::nullopt;  // unchanged
  Rounded rounded = round_table(result, *cost.format, cost.measured ? 1 : sample_step(tensor_of(result).rows));
  cost.error = rounded.relative_error;
  if (!cost.measured) return std::nullopt;
  return rounded;
}

WeightMatrix SensitivityPass::whole_table(const CheckpointTensor& tensor) const {
  if (!source_.rotated()) return checkpoint_.load_matrix(tensor, Reading::buffered);
  return round_matrix(tensor.name, tensor.rows, tensor.columns, format_info<F32Format>(),
                      [&](std::int64_t row, std::span<float> to, RowCodes& scratch) { source_.read_row(tensor, row, to, scratch); })
      .matrix;
}

/// The unchanged states, and those of every candidate of the embedding.
void SensitivityPass::begin() {
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const CheckpointTensor& tensor = tensor_of(i);
    if (keeps_format(tensor)) {
      results_[i].formats[0].measured = true;
      report(tensor.name);
    }
    if (tensor.role != Role::embedding) continue;
    base_ = embed(
        [&](TokenId id, std::span<float> to, RowCodes& scratch) { source_.read_row(tensor, id, to, scratch); });
    for (std::size_t f = 0; f < results_[i].formats.size(); ++f) {
      std::optional<Rounded> rounded = begin_table(i, f);
      if (!rounded) continue;
      Variant variant{
          i,
          f,
          embed([&](TokenId id, std::span<float> to, RowCodes& scratch) { rounded->matrix.read_row(id, to, scratch); }),
          {}};
      variant.keys = keys_;
      if (checkpoint_.config().tied) variant.head = std::move(rounded->matrix);
      variants_.push_back(std::move(variant));
    }
    report(tensor.name);
  }
}

void SensitivityPass::run_half(const LayerWeights& block, std::int64_t layer, Half half, std::vector<float>& states, LentStates& keys, std::span<const float> inputs) {
  const auto width = static_cast<std::size_t>(checkpoint_.config().state_dim());
  const bool routes_inputs = half == Half::feed_forward && checkpoint_.config().arch->routes_inputs;
  std::size_t first = 0;
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    const std::vector<TokenId>& window = windows_[i];
    const std::size_t size = window.size() * width;
    BesideStates beside{.embeddings = embeddings_.of(layer, half, window)};
    if (half == Half::mixer) keys.lend(layer, i, true, beside);
    if (routes_inputs) beside.layer_inputs = inputs.subspan(first, size);
    forward_->run_half(block, layer, half, std::span(states).subspan(first, size), beside);
    first += size;
  }
}

void SensitivityPass::run_block(const LayerWeights& block, std::int64_t layer, std::vector<float>& states, LentStates& keys) {
  const std::vector<float> inputs = checkpoint_.config().arch->routes_inputs ? states : std::vector<float>();
  for (const Half half : halves) run_half(block, layer, half, states, keys, inputs);
}

WeightMatrix SensitivityPass::round(const CheckpointTensor& tensor, const WeightMatrix& original, const Tensor<float, 2>& weights,
                                    const FormatInfo& format, Hessian& hessian) const {
  const bool alone = !is_pruned(recipe_, tensor) && (format.is_float || recipe_.method() == Method::hqq);
  return naming(tensor.name, [&] {
    std::vector<std::string> ignored;  // the pass that writes says it again
    if (!alone) return pass_.round(tensor.name, original, hessian, false, format, tensor.role, ignored);
    if (recipe_.method() == Method::hqq && format.has_minimums) return hqq(weights, format);
    return round_matrix(tensor.name, weights, format).matrix;
  });
}

void SensitivityPass::measure_matrix(std::size_t result, const LayerWeights& block, std::int64_t layer, Hessian* hessian) {
  const CheckpointTensor& tensor = tensor_of(result);
  LayerWeights changed = block;
  WeightMatrix& place = *matrix_of(changed, tensor);
  const Tensor<float, 2> moments = hessian != nullptr ? moments_of(*hessian, 0, hessian->columns()) : Tensor<float, 2>();
  MatrixParts parts(place, moments);
  std::vector<FormatCost>& formats = results_[result].formats;
  const std::vector<bool> measured = measured_formats(formats, options_.measured);
  for (std::size_t f = 0; f < formats.size(); ++f) {
    FormatCost& cost = formats[f];
    if (is_own(tensor, *cost.format)) {
      cost.measured = true;  // nothing changes
      continue;
    }
    const MatrixPart& part = parts.part_for(*cost.format, measured[f]);
    Rounded rounded;
    if (hessian == nullptr) {
      const auto read = [&](std::int64_t row, std::span<float> to, RowCodes& scratch) { part.original.read_row(row, to, scratch); };
      CheckpointTensor as = tensor;
      as.rows = part.original.rows();
      rounded = recipe_.method() == Method::hqq ? round_alone(recipe_, as, *cost.format, read) : round_matrix(tensor.name, part.weights, *cost.format);
      cost.error = rounded.relative_error;
    } else {
      rounded.matrix = round(tensor, part.original, part.weights, *cost.format, *hessian);
      cost.error = part.size > 0 ? std::sqrt(squared_loss(part.weights, rounded.matrix, moments) / part.size) : 0.0;
    }
    if (!measured[f]) continue;
    cost.measured = true;
    place = std::move(rounded.matrix);
    variants_.push_back({result, f, base_, {}, keys_});
    run_block(changed, layer, variants_.back().states, *variants_.back().keys);
  }
}

void SensitivityPass::measure_block(std::int64_t layer) {
  LayerWeights block = *source_.acquire(layer);
  std::vector<Hessian> hessians = pass_.observe_all(block, layer);
  for (Variant& variant : variants_) run_block(block, layer, variant.states, *variant.keys);
  for (std::size_t g = 0; g < input_groups().size(); ++g) {
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (tensor_of(i).layer != layer || input_group_of(tensor_of(i).role) != g) continue;
      measure_matrix(i, block, layer, &hessians[g]);
      report(results_[i].name);
    }
  }
  hessians.clear();
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const RoleInfo& info = info_of(tensor_of(i).role);
    if (tensor_of(i).layer != layer || !(info.stays_float() || info.is_ungrouped())) continue;
    if (info.is_ungrouped()) measure_matrix(i, block, layer, nullptr);
    results_[i].formats[0].measured = true;  // a router keeps its numbers
    report(results_[i].name);
  }
  pass_.advance(block, layer, Half::mixer);
  if (checkpoint_.config().layer(layer).is_sparse()) measure_experts(block, layer);
  run_block(block, layer, base_, keys_);
  for (const Half half : {Half::feed_forward, Half::end}) pass_.advance(block, layer, half);
}

/// Adds what a variant's logits of one window differ by.
void SensitivityPass::add_divergences(const Variant& variant, Forward& head, std::size_t first, std::size_t tokens,
                                      std::span<const float> base) {
  const auto width = static_cast<std::size_t>(checkpoint_.config().state_dim()),
             vocab = static_cast<std::size_t>(checkpoint_.config().vocab);
  std::vector<float> logits;
  logits.reserve(tokens * vocab);
  head.run_head(std::span(variant.states.empty() ? base_ : variant.states).subspan(first * width, tokens * width),
                [&](std::int64_t, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); });
  std::vector<double> divergences(tokens);
  parallel_for(static_cast<std::int64_t>(tokens), 4, [&](Range range) {
    for (auto t = static_cast<std::size_t>(range.begin); t < static_cast<std::size_t>(range.end); ++t) {
      const auto expected = base.subspan(t * vocab, vocab),
                 found = std::span<const float>(logits).subspan(t * vocab, vocab);
      divergences[t] = divergence(expected, log_sum_exp(expected), found, log_sum_exp(found));
    }
  });
  double& sum = results_[variant.result].formats[variant.format].kl;
  for (const double kl : divergences) sum += kl;
}

/// From hidden states to divergences.
void SensitivityPass::finish() {
  const ModelConfig& config = checkpoint_.config();
  ModelWeights weights;
  for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
    if (tensor.role == Role::final_norm || tensor.role == Role::final_norm_bias || tensor.role == Role::head_bias || tensor.role == Role::head_streams_norm) *vector_of(weights, tensor) = source_.load_vector(tensor);
    const bool merges = tensor.role == Role::stream_unembedding || tensor.role == Role::head_streams_down || tensor.role == Role::head_streams_up;
    if (merges) *matrix_of(weights, tensor) = checkpoint_.load_matrix(tensor, Reading::buffered);
    if (tensor.role == (config.tied ? Role::embedding : Role::head))
      weights.head = whole_table(tensor);
  }
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (tensor_of(i).role != Role::head) continue;
    for (std::size_t f = 0; f < results_[i].formats.size(); ++f) {
      if (std::optional<Rounded> rounded = begin_table(i, f)) variants_.push_back({i, f, {}, std::move(rounded->matrix), {}});
    }
    report(tensor_of(i).name);
  }
  const auto width = static_cast<std::size_t>(config.state_dim()), vocab = static_cast<std::size_t>(config.vocab);
  Forward head(config, weights, 1, 0);
  std::size_t first = 0;
  for (const std::vector<TokenId>& window : windows_) {
    std::vector<float> base;
    base.reserve(window.size() * vocab);
    head.run_head(std::span(base_).subspan(first * width, window.size() * width),
                  [&](std::int64_t, std::span<const float> row) { base.insert(base.end(), row.begin(), row.end()); });
    for (const Variant& variant : variants_) {
      if (variant.head.empty()) {
        add_divergences(variant, head, first, window.size(), base);
        continue;
      }
      ModelWeights changed = weights;
      changed.head = variant.head;
      Forward other(config, changed, 1, 0);
      add_divergences(variant, other, first, window.size(), base);
    }
    first += window.size();
  }
  for (Sensitivity& result : results_) {
    for (FormatCost& cost : result.formats) {
      cost.kl = std::max(0.0, cost.kl / static_cast<double>(first));
      if (!std::isfinite(cost.kl))
        fail(Errc::corrupt, result.name, ": expected finite logits with ", cost.format->name,
             ", found NaN or infinity");
    }
  }
}

void SensitivityPass::interpolate() {
  for (Sensitivity& result : results_) {
    std::vector<std::pair<double, double>> points;
    for (const FormatCost& cost : result.formats) {
      if (cost.measured) points.emplace_back(cost.error, cost.kl);
    }
    for (FormatCost& cost : result.formats) {
      if (!cost.measured) cost.kl = interpolate_divergence(points, cost.error);
    }
  }
}

double interpolate_divergence(std::span<const std::pair<double, double>> points, double error) {
  std::vector<std::pair<double, double>> known;
  for (const auto& point : points) {
    if (point.first > 0 && point.second > 0) known.push_back(point);
  }
  if (known.empty() || error <= 0) return 0;
  std::ranges::sort(known);
  const auto beyond = [&](const std::pair<double, double>& point) {
    return point.second * (error / point.first) * (error / point.first);
  };
  const auto above = std::ranges::lower_bound(known, error, {}, &std::pair<double, double>::first);
  if (above == known.begin()) return beyond(known.front());
  if (above == known.end()) return beyond(known.back());
  const auto& [e1, kl1] = *(above - 1);
  const auto& [e2, kl2] = *above;
  return kl1 * std::pow(kl2 / kl1, std::log(error / e1) / std::log(e2 / e1));
}

std::vector<Sensitivity> measure_sensitivity(const Checkpoint& checkpoint, const Recipe& recipe,
                                             const Calibration& calibration, Target target,
                                             const SensitivityOptions& options, const ProgressFn& progress) {
  if (options.measured < 1)
    fail(Errc::invalid_argument, "sensitivity: expected at least one measured format, found ", options.measured);
  if (options.tokens < 1)
    fail(Errc::invalid_argument, "sensitivity: expected at least one token, found ", options.tokens);
  if (recipe.options().smooth)
    fail(Errc::unsupported, "sensitivity: smoothed weights: not yet; what works: a model that was smoothed into f32 before");
  check_formats(recipe, target);
  for (const FormatInfo* format : options.candidates) {
    check_format(*format, target, "candidates");
    check_holds(recipe, *format, "candidates");
    if (recipe.options().pruning && !holds_zero(*format)) {
      fail(Errc::invalid_argument, "candidates: expected formats that hold 0 exactly, to prune, found ", format->name);
    }
  }
  return SensitivityPass(checkpoint, recipe, calibration, target, options, progress).run();
}

}  // namespace bantam::inline v0
