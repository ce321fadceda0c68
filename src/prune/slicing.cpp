// The residual stream over its principal axes, and without the last of them.
#include "slicing.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "bantam/calibrate/product.hpp"
#include "bantam/prune/compensation.hpp"
#include "bantam/quant/formats.hpp"
#include "calibrate/fold.hpp"
#include "parts.hpp"
#include "principal_axes.hpp"
#include "states.hpp"
#include "stream_moments.hpp"

namespace bantam::inline v0 {

namespace {

/// Adds to the first rows and columns.
void add_corner(Tensor<float, 2>& to, const Tensor<float, 2>& more) {
  for (std::int64_t r = 0; r < more.extent(0); ++r) {
    for (std::int64_t c = 0; c < more.extent(1); ++c) to(r, c) += more(r, c);
  }
}

/// Slices block after block, in order. Until narrow(), all has the original's width, with zeros after the first `dim_` numbers of the
/// stream: norms make of these what they will make of the narrow one, whose numbers are scaled, and one pass carries both models.
class Slicer {
 public:
  Slicer(const Checkpoint& checkpoint, const StreamMoments& moments, std::int64_t dim, const Calibration& calibration,
         const StructureOptions& options)
      : checkpoint_(checkpoint), config_(checkpoint.config()), dim_(dim), options_(options), kept_(first_numbers(dim)),
        axes_(principal_axes(moments.outputs, moments.responses)),
        scale_(std::sqrt(static_cast<float>(dim) / static_cast<float>(config_.dim))),
        share_(static_cast<float>(std::sqrt(share_along(moments.outputs, axes_, dim)))), source_(checkpoint, Rotation(axes_.clone())) {
    if (!options.compensate) return;
    states_.emplace(checkpoint, calibration);
    states_->pass.project(Rotation(axes_.clone()), dim);
  }

  [[nodiscard]] LayerWeights block(std::int64_t layer) {
    const LayerWeights original = *source_.acquire(layer);
    LayerWeights block = original;
    for_each_end(block, [&](WeightMatrix& writer, std::vector<float>* bias) {
      change(writer, [&](Tensor<float, 2>& w) { std::fill(w.data() + dim_ * w.extent(1), w.data() + w.size(), 0.0f); });
      if (bias != nullptr) std::fill(bias->begin() + dim_, bias->end(), 0.0f);
    }, [&](std::vector<float>& norm) { std::ranges::fill(norm, share_); });
    if (states_) {
      for (std::size_t group = 0; group < input_groups().size(); ++group) {
        if (first_of(block, input_groups()[group]) != nullptr) refit(block, original, layer, group);
      }
    }
    narrow(block);
    return block;
  }

  /// The embedding, or the head.
  [[nodiscard]] WeightMatrix table(const CheckpointTensor& tensor) const {
    const bool refits = tensor.role == Role::head && states_;
    const Tensor<float, 2> taken = refits ? head_correction() : Tensor<float, 2>();
    Tensor<float, 2> out({tensor.rows, dim_});
    for_rows(tensor.rows, [&](std::int64_t first, std::int64_t count) {
      const Tensor<float, 2> rows = source_.read_rows(tensor, first, count);
      Tensor<float, 2> left = keep_columns(rows, kept_);
      if (refits) add_corner(left, times_transposed(rows, taken.view().transposed()));
      if (tensor.role == Role::embedding) scale(left.span());
      std::ranges::copy(left.span(), &out(first, 0));
    });
    return WeightMatrix::quantize(out, format_info<F32Format>());
  }

  /// A head that is the embedding stays so. What the norm's weights do along each axis stays with the norm, what they do from
  /// one axis to another goes; a head of its own would cost more than that where tables are large (docs/numbers.md).
  [[nodiscard]] std::vector<float> final_norm(const CheckpointTensor& tensor) const {
    if (!config_.tied) return std::vector<float>(static_cast<std::size_t>(dim_), source_.load_vector(tensor)[0] * share_ / scale_);
    const std::vector<float> gains = checkpoint_.load_vector(tensor);
    std::vector<float> along;
    for (std::int64_t i = 0; i < dim_; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < config_.dim; ++j) {
        const double part = axes_(i, j);
        sum += part * part * static_cast<double>(gains[static_cast<std::size_t>(j)]);
      }
      along.push_back(static_cast<float>(sum) * share_ / (scale_ * scale_));  // the table is scaled as well
    }
    return along;
  }

 private:
  /// Calls writes(matrix, its bias or null) for what adds to the residual stream, and reads(norm) for what reads it.
  static void for_each_end(LayerWeights& block, auto&& writes, auto&& reads) {
    for (const InputGroup& group : input_groups()) {
      if (first_of(block, group) == nullptr) continue;
      if (group.adds) {
        writes(*matrix_of(block, group.roles[0]), bias_of(block, group.roles[0]));
      } else if (group.reads_stream()) {
        reads(*vector_of(block, group.source));
      }
    }
  }

  void scale(std::span<float> values) const {
    for (float& value : values) value *= scale_;
  }

  /// Adds to the matrices of a group what their outputs lack, by least squares on their inputs. Readers of the stream lack what
  /// their inputs have drifted by, times their weights; what adds to it, what the states lack beside the original's.
  void refit(LayerWeights& block, const LayerWeights& original, std::int64_t layer, std::size_t group) {
    const bool writes = input_groups()[group].adds;
    BlockPass& pass = states_->pass;
    const BlockPass::Observed seen = pass.observe(block, layer, group, &original);
    const Regression regression(seen.hessian, writes ? first_numbers(seen.hessian.columns()) : kept_, options_.stream_damping);
    const Tensor<float, 2> taken = regression.solve(seen.input_error.view().slice(writes ? 0 : 1, 0, dim_));
    for (const Role each : input_groups()[group].roles) {
      WeightMatrix& matrix = *matrix_of(block, each);
      if (matrix.empty()) continue;
      change(matrix, [&](Tensor<float, 2>& w) { add_corner(w, writes ? taken.clone() : times_transposed(w, taken.view().transposed())); });
    }
    if (writes) pass.advance(block, layer, input_groups()[group].half);
  }

  /// What the head's rows are multiplied by, (dim of the original, dim), to give what is added to them.
  [[nodiscard]] Tensor<float, 2> head_correction() const {
    const BlockPass& pass = states_->pass;
    Hessian hessian(config_.dim);
    Tensor<float, 2> input_error({config_.dim, config_.dim});
    for_rows(static_cast<std::int64_t>(pass.states().size()) / config_.dim, [&](std::int64_t first, std::int64_t count) {
      const Tensor<float, 2> x = normed(pass.states(), first, count, config_, share_);
      const Tensor<float, 2> original = normed(pass.original_states(), first, count, config_);
      Tensor<float, 2> beside({config_.dim, count});
      for (std::int64_t t = 0; t < count; ++t) {
        for (std::int64_t c = 0; c < config_.dim; ++c) beside(c, t) = original(t, c) - x(t, c);
      }
      hessian.add(x);
      add_products(input_error, beside, x);
    });
    return Regression(hessian, kept_, options_.stream_damping).solve(input_error.view().slice(1, 0, dim_));
  }

  /// Leaves out the zeros. Norms have taken the mean over more numbers, of which `scale_` makes the same.
  void narrow(LayerWeights& block) const {
    keep_parts(block, Part::hidden, kept_, config_, 0);  // of any layer: all have the same
    for_each_end(block, [&](WeightMatrix& writer, std::vector<float>* bias) {
      change(writer, [&](Tensor<float, 2>& w) { scale(w.span()); });
      if (bias != nullptr) scale(*bias);
    }, [&](std::vector<float>& norm) { std::ranges::fill(norm, share_ / scale_); });
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const std::int64_t dim_;
  const StructureOptions& options_;
  const std::vector<std::int64_t> kept_;
  const Tensor<float, 2> axes_;
  const float scale_;  ///< sqrt(dim_ / dim), of the stream: its mean square stays, and with it what a norm's epsilon does
  const float share_;  ///< of what a norm puts out along the axes kept, where its input has lost the others
  const ModelSource source_;
  std::optional<States> states_;
};

}  // namespace

Checkpoint slice(const Checkpoint& checkpoint, std::span<const std::int64_t> layers, std::int64_t dim,
                 const Calibration& calibration, const StructureOptions& options, Steps& steps) {
  Slicer slicer(checkpoint, stream_moments(checkpoint, layers, calibration, steps), dim, calibration, options);
  ModelWeights weights;
  for (const std::int64_t layer : layers) {
    weights.layers.push_back(slicer.block(layer));
    steps.done("sliced", layer);
  }
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.role == Role::embedding) weights.embedding = slicer.table(tensor);
    if (tensor.role == Role::head) weights.head = slicer.table(tensor);
    if (tensor.role == Role::final_norm) weights.final_norm = slicer.final_norm(tensor);
  }
  ModelConfig config = with_layers(checkpoint.config(), layers);
  config.dim = dim;
  complete(weights, config);
  return Checkpoint::in_memory(checkpoint, config, layers, std::make_shared<const ModelWeights>(std::move(weights)), checkpoint.recipe());
}

}  // namespace bantam::inline v0
