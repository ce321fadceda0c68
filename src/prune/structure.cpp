// The passes that measure layers and take parts out of blocks.
#include "bantam/prune/structure.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "bantam/calibrate/product.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/model/residency.hpp"
#include "bantam/prune/compensation.hpp"
#include "bantam/quant/formats.hpp"
#include "calibrate/fold.hpp"
#include "parts.hpp"
#include "slicing.hpp"
#include "states.hpp"

namespace bantam::inline v0 {

namespace {

double mean_cosine(std::span<const float> before, std::span<const float> after, std::int64_t dim) {
  const std::int64_t tokens = static_cast<std::int64_t>(before.size()) / dim;
  std::vector<double> cosines(static_cast<std::size_t>(tokens));
  parallel_for(tokens, 64, [&](Range range) {
    for (std::int64_t t = range.begin; t < range.end; ++t) {
      double product = 0, a = 0, b = 0;
      for (std::int64_t i = t * dim; i < (t + 1) * dim; ++i) {
        const double x = before[static_cast<std::size_t>(i)], y = after[static_cast<std::size_t>(i)];
        product += x * y;
        a += x * x;
        b += y * y;
      }
      cosines[static_cast<std::size_t>(t)] = a == 0 || b == 0 ? 0 : product / std::sqrt(a * b);
    }
  });
  return std::accumulate(cosines.begin(), cosines.end(), 0.0) / static_cast<double>(tokens);
}

/// The mean square of what each part adds to the hidden states, but for a factor that all share.
std::vector<double> scores_of(const Tensor<float, 2>& weights, const Hessian& hessian, std::int64_t neighbors) {
  std::vector<double> squares(static_cast<std::size_t>(weights.extent(1)), 0.0);
  for (std::int64_t r = 0; r < weights.extent(0); ++r) {
    for (std::size_t c = 0; c < squares.size(); ++c) {
      const double w = weights(r, static_cast<std::int64_t>(c));
      squares[c] += w * w;
    }
  }
  std::vector<double> scores(squares.size() / static_cast<std::size_t>(neighbors), 0.0);
  for (std::size_t c = 0; c < squares.size(); ++c) {
    const auto column = static_cast<std::int64_t>(c);
    scores[c / static_cast<std::size_t>(neighbors)] += squares[c] * static_cast<double>(hessian(column, column));
  }
  return scores;
}

/// What the caller thinks that they are worth.
std::vector<double> asked_scores(const ImportanceFn& importance, Part part, std::int64_t layer, const Tensor<float, 2>& weights, const Hessian& hessian,
                                 std::int64_t neighbors) {
  std::vector<double> scores = importance(part, layer, weights, hessian.mean_squares());
  const auto wanted = static_cast<std::size_t>(weights.extent(1) / neighbors);
  const bool finite = std::ranges::all_of(scores, [](double score) { return std::isfinite(score); });
  if (scores.size() != wanted || !finite) {
    fail(Errc::invalid_argument, "layer ", layer, ": ", name_of(part), ": expected ", wanted, " finite importances, found ", scores.size(), finite ? "" : ", not all finite");
  }
  return scores;
}

void add(Tensor<float, 2>& to, const Tensor<float, 2>& more) {
  for (std::int64_t i = 0; i < to.size(); ++i) to.data()[i] += more.data()[i];
}

/// Takes parts out of block after block, in order. From the first that goes, what is left makes up for it: every matrix is
/// refitted to the original's inputs and hidden states, in the order in which they run.
class Cutter {
 public:
  Cutter(const Checkpoint& checkpoint, const Calibration& calibration, const StructureOptions& options, std::vector<std::string>& warnings)
      : config_(checkpoint.config()), options_(options), states_(checkpoint, calibration), warnings_(warnings) {}

  /// Leaves a block these heads, channels and experts.
  void cut(LayerWeights& block, std::int64_t layer, const LayerSpec& left) {
    const LayerWeights original = block;
    half(block, original, layer, Part::heads, left.kv_heads);
    if (!left.is_sparse()) return half(block, original, layer, Part::channels, left.ffn);
    if (left.experts < std::ssize(block.experts.experts)) {
      const std::vector<double> worth = states_.pass.expert_worth(block, layer, options_.expert_score == ExpertScore::frequency);
      keep_parts(block, Part::experts, choose_in_groups(worth, left.experts, config_.router.groups).kept, config_, layer);
    }
    pass_over(block, original, layer, Half::feed_forward);
  }
  /// A block that goes as a whole.
  void skip(const LayerWeights& original, std::int64_t layer) {
    begin_following();
    for (const Half stage : halves) states_.pass.advance_original(original, layer, stage);
  }

 private:
  /// What several residual streams lack is not what one matrix could add: nothing is made up for there.
  void begin_following() {
    if (!options_.compensate || follows_ || config_.has_streams()) return;
    states_.pass.follow();
    follows_ = true;
  }

  /// A half that nothing more is done to, or that a layer lacks.
  void pass_over(const LayerWeights& block, const LayerWeights& original, std::int64_t layer, Half half) {
    states_.pass.advance_original(original, layer, half);
    states_.pass.advance(block, layer, half);
  }

  void half(LayerWeights& block, const LayerWeights& original, std::int64_t layer, Part part, std::int64_t count) {
    const std::size_t group = input_group_of(reader_of(part));
    if (matrix_of(block, reader_of(part))->empty()) return pass_over(block, original, layer, input_groups()[group].half);
    for (std::size_t g = 0; g < group; ++g) {
      if (input_groups()[g].half == input_groups()[group].half && first_of(block, input_groups()[g]) != nullptr) refit_inputs(block, original, layer, g);
    }
    WeightMatrix& reader = *matrix_of(block, reader_of(part));
    const std::int64_t neighbors = columns_of(part, config_, layer);
    Tensor<float, 2> lost;  // what the parts that go would have added, times the inputs of those that stay
    if (count * neighbors < reader.columns()) {
      begin_following();
      const Hessian hessian = states_.pass.observe_here(block, layer, group);
      const Tensor<float, 2> weights = reader.dequantize();
      const PartChoice choice = choose(options_.importance ? asked_scores(options_.importance, part, layer, weights, hessian, neighbors)
                                                           : scores_of(weights, hessian, neighbors), count);
      keep_parts(block, part, choice.kept, config_, layer);
      const std::vector<std::int64_t> kept = spread(choice.kept, neighbors), removed = spread(choice.removed, neighbors);
      if (follows_) lost = times_transposed(keep_columns(weights, removed), part_of(hessian, kept, removed));
    }
    if (follows_) refit(block, reader, original, layer, group, lost);
    states_.pass.advance(block, layer, input_groups()[group].half);
  }

  /// To the hidden states of the original: to what its own parts that went would have added, and in part to what those of blocks
  /// before have left to make up for.
  void refit(const LayerWeights& block, WeightMatrix& reader, const LayerWeights& original, std::int64_t layer, std::size_t group, const Tensor<float, 2>& lost) {
    BlockPass::Observed seen = states_.pass.observe(block, layer, group, &original);
    const auto share = static_cast<float>(options_.follow_original);
    for (std::int64_t i = 0; i < seen.input_error.size(); ++i) {
      const float own = lost.size() > 0 ? lost.data()[i] : 0.0f;
      seen.input_error.data()[i] = own + share * (seen.input_error.data()[i] - own);
    }
    const Tensor<float, 2> more = solve(seen, options_.damping, layer, group);
    if (more.size() > 0) change(reader, [&](Tensor<float, 2>& w) { add(w, more); });
  }

  /// The matrices of a group that reads the stream, to what they read in the original.
  void refit_inputs(LayerWeights& block, const LayerWeights& original, std::int64_t layer, std::size_t group) {
    if (!follows_) return;
    const BlockPass::Observed seen = states_.pass.observe(block, layer, group, &original);
    const Tensor<float, 2> turned = solve(seen, options_.stream_damping, layer, group);
    for (const Role role : input_groups()[group].roles) {
      WeightMatrix& matrix = *matrix_of(block, role);
      if (turned.size() > 0 && !matrix.empty()) change(matrix, [&](Tensor<float, 2>& w) { add(w, times_transposed(w, turned.view().transposed())); });
    }
  }

  /// Empty, with a word, where no damping will do.
  [[nodiscard]] Tensor<float, 2> solve(const BlockPass::Observed& seen, double damping, std::int64_t layer, std::size_t group) {
    const std::string_view name = input_groups()[group].name;
    try {
      const Regression regression(seen.hessian, first_numbers(seen.hessian.columns()), damping);
      if (regression.damping() != damping) {
        warnings_.push_back(message("layer ", layer, ": ", name, ": second moments are singular: damping raised from ", damping, " to ", regression.damping()));
      }
      return regression.solve(seen.input_error);
    } catch (const Error& error) {
      if (error.code() != Errc::corrupt) throw;
      warnings_.push_back(message("layer ", layer, ": ", name, ": second moments cannot be factorized: nothing is made up for there"));
      return {};
    }
  }

  const ModelConfig& config_;
  const StructureOptions& options_;
  States states_;
  std::vector<std::string>& warnings_;
  bool follows_ = false;
};

}  // namespace

std::vector<double> block_influence(const Checkpoint& checkpoint, const Calibration& calibration) {
  States states(checkpoint, calibration);
  std::vector<double> influence;
  for (std::int64_t layer = 0; layer < checkpoint.config().layers; ++layer) {
    const std::vector<float> before(states.pass.states().begin(), states.pass.states().end());
    states.pass.advance_over(load_finite_block(checkpoint, layer), layer);
    influence.push_back(1 - mean_cosine(before, states.pass.states(), checkpoint.config().state_dim()));
    if (!std::isfinite(influence.back())) fail(Errc::corrupt, "layer ", layer, ": expected finite hidden states, found others");
  }
  return influence;
}

ModelSize size_of(const Checkpoint& checkpoint) {
  ModelSize size;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    size.parameters += tensor.rows * tensor.columns;
    size.bytes += tensor.stored_bytes();
    const bool met = tensor.is_matrix && detail::is_read_whole(tensor, checkpoint.config());
    const bool used = tensor.expert < checkpoint.config().router.used && !tensor.is_drafting;
    if (met && used) size.flops_per_token += 2 * tensor.rows * tensor.columns;
  }
  return size;
}

PrunedStructure prune_structure(const Checkpoint& checkpoint, std::span<const Removal> removals, const Calibration& calibration,
                                const StructureOptions& options, const ProgressFn& progress) {
  const StructurePlan plan = plan_structure(checkpoint.config(), removals);
  std::vector<double> influence;
  std::vector<std::int64_t> layers = first_numbers(checkpoint.config().layers);
  if (plan.layers < checkpoint.config().layers) {
    influence = block_influence(checkpoint, calibration);
    layers = choose(influence, plan.layers).kept;
  }
  const auto asked = [&](Part part) { return std::ranges::find(removals, part, &Removal::part) != removals.end(); };
  const bool inside = asked(Part::heads) || asked(Part::channels) || asked(Part::experts), hidden = asked(Part::hidden);
  Steps steps(plan.layers * ((hidden ? 2 : 0) + (inside || !hidden ? 1 : 0)), progress);
  std::vector<std::string> warnings;
  const auto result = [&](Checkpoint left) {
    for (const Removal& removal : removals) left.note_removed(removal.text());
    const ModelSize after = size_of(left);
    return PrunedStructure{std::move(left), size_of(checkpoint), after, std::move(layers), std::move(influence), std::move(warnings)};
  };
  // First the stream: the parts inside of blocks are then judged by what a narrower one leaves of them, and make up for what they can.
  std::optional<Checkpoint> sliced;
  if (hidden) sliced = slice(checkpoint, layers, plan.dim, calibration, options, steps);
  if (hidden && !inside) return result(std::move(*sliced));
  const Checkpoint& from = sliced ? *sliced : checkpoint;
  const std::vector<std::int64_t> taken = sliced ? first_numbers(plan.layers) : layers;
  std::optional<Cutter> cutter;
  if (inside || options.compensate) cutter.emplace(from, calibration, options, warnings);
  ModelWeights weights;
  std::vector<LayerSpec> specs;
  std::int64_t next = 0;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    for (; cutter && next < taken[i]; ++next) cutter->skip(load_finite_block(from, next), next);
    next = taken[i] + 1;
    LayerWeights block = load_finite_block(from, taken[i]);
    const LayerSpec& spec = specs.emplace_back(plan.specs[static_cast<std::size_t>(layers[i])]);
    if (cutter) cutter->cut(block, taken[i], spec);
    weights.layers.push_back(std::move(block));
    steps.done("pruned", layers[i]);
  }
  ModelConfig config = with_layers(from.config(), taken);
  for (const CheckpointTensor& tensor : from.tensors()) {
    if (tensor.layer >= 0 || !is_in_layer(tensor.role, -1, config)) continue;
    if (tensor.is_matrix) {
      *matrix_of(weights, tensor) = from.load_matrix(tensor, Reading::mapped);
    } else if (std::vector<float>* vector = vector_of(weights, tensor)) {
      *vector = from.load_vector(tensor);
    }
  }
  config.set_layers(std::move(specs));
  complete(weights, config);
  return result(Checkpoint::in_memory(from, config, taken, std::make_shared<const ModelWeights>(std::move(weights)), checkpoint.recipe()));
}

}  // namespace bantam::inline v0
