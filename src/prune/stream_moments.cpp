// What norms put out, and what their readers answer to.
#include "stream_moments.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "bantam/core/parallel.hpp"
#include "calibrate/fold.hpp"
#include "states.hpp"

namespace bantam::inline v0 {

namespace {

/// Adds second moments, as shares of their trace.
void add_shares(Tensor<double, 2>& sums, const Hessian& moments) {
  double trace = 0;
  for (std::int64_t i = 0; i < moments.columns(); ++i) trace += static_cast<double>(moments(i, i));
  if (trace == 0) return;
  for (std::int64_t i = 0; i < moments.columns(); ++i) {
    for (std::int64_t j = 0; j < moments.columns(); ++j) sums(i, j) += static_cast<double>(moments(i, j)) / trace;
  }
}

/// Adds the rows of what reads a norm, over the norm's weights.
void add_rows(Hessian& sums, Tensor<float, 2> rows, std::span<const float> gains) {
  scale_columns(rows, gains);
  sums.add(rows);
}

}  // namespace

const CheckpointTensor& tensor_of(const Checkpoint& checkpoint, Role role) {
  return *std::ranges::find(checkpoint.tensors(), role, &CheckpointTensor::role);
}

StreamMoments stream_moments(const Checkpoint& checkpoint, std::span<const std::int64_t> layers, const Calibration& calibration,
                             Steps& steps) {
  const ModelConfig& config = checkpoint.config();
  StreamMoments sums{Tensor<double, 2>({config.dim, config.dim}), Tensor<double, 2>({config.dim, config.dim})};
  States states(checkpoint, calibration);
  for (const std::int64_t layer : layers) {
    const LayerWeights block = load_finite_block(checkpoint, layer);
    std::vector<std::size_t> groups;  // that read the stream, after a norm
    for (std::size_t g = 0; g < input_groups().size(); ++g) {
      if (input_groups()[g].reads_stream() && first_of(block, input_groups()[g]) != nullptr) groups.push_back(g);
    }
    std::vector<Hessian> outputs = states.pass.observe_some(block, layer, groups);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const InputGroup& group = input_groups()[groups[i]];
      std::vector<float> gains = *vector_of(block, group.source);
      Hessian responses(config.dim);
      for (const Role role : group.roles) {
        const WeightMatrix& reader = *matrix_of(block, role);
        if (!reader.empty()) add_rows(responses, reader.dequantize(), gains);
      }
      add_shares(sums.responses, responses);
      // What a weight of 0 lets nobody read does not count.
      std::ranges::replace(gains, 0.0f, std::numeric_limits<float>::infinity());
      outputs[i].divide_inputs(gains);
      add_shares(sums.outputs, outputs[i]);
    }
    states.pass.advance_over(block, layer);
    steps.done("measured", layer);
  }
  Hessian outputs(config.dim), responses(config.dim);
  const std::span<const float> left = states.pass.states();
  for_rows(static_cast<std::int64_t>(left.size()) / config.dim, [&](std::int64_t first, std::int64_t count) {
    outputs.add(normed(left, first, count, config));
  });
  add_shares(sums.outputs, outputs);
  const std::vector<float> gains = checkpoint.load_vector(tensor_of(checkpoint, Role::final_norm));
  const CheckpointTensor& head = tensor_of(checkpoint, config.tied ? Role::embedding : Role::head);
  for_rows(head.rows, [&](std::int64_t first, std::int64_t count) {
    Tensor<float, 2> rows = states.source.read_rows(head, first, count);
    for (std::int64_t r = 0; r < count; ++r) check_finite(head.name, first + r, rows[r].span());
    add_rows(responses, std::move(rows), gains);
  });
  add_shares(sums.responses, responses);
  return sums;
}

double share_along(const Tensor<double, 2>& outputs, const Tensor<float, 2>& axes, std::int64_t dim) {
  const std::int64_t n = outputs.extent(0);
  std::vector<double> along(static_cast<std::size_t>(n), 0.0);
  parallel_for(n, 16, [&](Range range) {
    for (std::int64_t a = range.begin; a < range.end; ++a) {
      for (std::int64_t i = 0; i < n; ++i) {
        double product = 0;
        for (std::int64_t j = 0; j < n; ++j) product += outputs(i, j) * static_cast<double>(axes(a, j));
        along[static_cast<std::size_t>(a)] += product * static_cast<double>(axes(a, i));
      }
    }
  });
  const double all = std::accumulate(along.begin(), along.end(), 0.0);
  return all > 0 ? std::accumulate(along.begin(), along.begin() + dim, 0.0) / all : 1.0;
}

}  // namespace bantam::inline v0
