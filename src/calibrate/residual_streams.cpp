// The products of nn::AltUp::spread() and merge(), and of nn::HyperConnections::read() before the head, in floats.
#include "residual_streams.hpp"

#include <algorithm>

#include "bantam/calibrate/product.hpp"
#include "bantam/core/parallel.hpp"
#include "model/make_mixer.hpp"
#include "model/sources/transforms.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::int64_t at_once = 512;  ///< tokens

}  // namespace

ResidualStreams::ResidualStreams(const ModelSource& source) : config_(source.checkpoint().config()) {
  const std::int64_t others = config_.streams - 1;
  for (const CheckpointTensor& tensor : source.checkpoint().tensors()) {
    if (tensor.role == Role::head_streams_norm) head_.norm = source.load_vector(tensor);
    if (tensor.role == Role::head_streams_down) head_.down = source.checkpoint().load_matrix(tensor, Reading::buffered);
    if (tensor.role == Role::head_streams_up) head_.up = source.checkpoint().load_matrix(tensor, Reading::buffered);
    if (!info_of(tensor.role).by_streams) continue;
    std::vector<WeightMatrix>& matrices = tensor.role == Role::stream_projection ? projections_ : unembeddings_;
    for (std::int64_t i = 0; i < others; ++i) matrices.push_back(slice(tensor.source, i, others)->load(Reading::buffered, nullptr));
  }
}

void ResidualStreams::spread(std::span<float> states) const {
  const std::int64_t dim = config_.dim, width = config_.state_dim(), all = std::ssize(states) / width;
  for (std::int64_t t = 0; config_.connects_streams() && t < all; ++t) {
    for (std::int64_t i = 1; i < config_.streams; ++i) std::copy_n(states.data() + t * width, dim, states.data() + t * width + i * dim);
  }
  for (std::int64_t first = 0; config_.alternates_streams() && first < all; first += at_once) {
    const std::int64_t tokens = std::min(at_once, all - first);
    const auto row = [&](std::int64_t t) { return states.data() + (first + t) * width; };
    Tensor<float, 2> x({tokens, dim});
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::copy_n(row(t), dim, &x(t, 0));
      std::copy_n(row(t), dim, row(t) + dim);
    }
    for (std::size_t i = 0; i < projections_.size(); ++i) {
      const Tensor<float, 2> made = outputs_of(projections_[i], x);
      for (std::int64_t t = 0; t < tokens; ++t) {
        float* stream = row(t) + (static_cast<std::int64_t>(i) + 2) * dim;
        std::copy_n(&made(t, 0), dim, stream);
        nn::make_as_long(row(t), stream, dim);
      }
    }
  }
}

Tensor<float, 2> ResidualStreams::merge_connected(std::span<const float> states) const {
  const std::int64_t dim = config_.dim, width = config_.state_dim(), all = std::ssize(states) / width;
  const nn::HyperConnectionOptions options = connection_options(config_);
  const KernelTable& kernels = kernels_in_use();
  const float share = 1 / static_cast<float>(config_.streams);
  Tensor<float, 2> merged({all, dim});
  for (std::int64_t first = 0; first < all; first += at_once) {
    const std::int64_t tokens = std::min(at_once, all - first);
    Tensor<float, 2> x({tokens, width});
    for (std::int64_t t = 0; t < tokens; ++t) nn::norm_streams(kernels, options, states.data() + (first + t) * width, head_.norm, &x(t, 0));
    Tensor<float, 2> hidden = outputs_of(head_.down, x);
    for (float& value : hidden.span()) value *= share;
    kernels.silu_mul(hidden.data(), nullptr, hidden.data(), hidden.size());
    Tensor<float, 2> gated = outputs_of(head_.up, hidden);
    kernels.sigmoid_mul(gated.data(), x.data(), gated.data(), gated.size());
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t c = 0; c < dim; ++c) {
        float sum = 0;
        for (std::int64_t i = 0; i < config_.streams; ++i) sum += gated(t, i * dim + c);
        merged(first + t, c) = sum * share;
      }
    }
  }
  return merged;
}

Tensor<float, 2> ResidualStreams::merge(std::span<const float> states) const {
  if (config_.connects_streams()) return merge_connected(states);
  const std::int64_t dim = config_.dim, width = config_.state_dim(), all = std::ssize(states) / width;
  Tensor<float, 2> merged({all, dim});
  for (std::int64_t t = 0; t < all; ++t) std::copy_n(states.data() + t * width + (config_.has_streams() ? dim : 0), dim, &merged(t, 0));
  for (std::int64_t first = 0; config_.has_streams() && first < all; first += at_once) {
    const std::int64_t tokens = std::min(at_once, all - first);
    const auto stream = [&](std::int64_t t, std::int64_t i) { return states.data() + (first + t) * width + (i + 1) * dim; };
    Tensor<float, 2> x({tokens, dim});
    for (std::size_t i = 0; i < unembeddings_.size(); ++i) {
      for (std::int64_t t = 0; t < tokens; ++t) std::copy_n(stream(t, static_cast<std::int64_t>(i) + 1), dim, &x(t, 0));
      Tensor<float, 2> made = outputs_of(unembeddings_[i], x);
      for (std::int64_t t = 0; t < tokens; ++t) {
        nn::make_as_long(stream(t, 0), &made(t, 0), dim);
        kernels_in_use().add(&merged(first + t, 0), &made(t, 0), dim);
      }
    }
    for (std::int64_t t = first; t < first + tokens; ++t) {
      for (std::int64_t c = 0; c < dim; ++c) merged(t, c) /= static_cast<float>(config_.streams);
    }
  }
  return merged;
}

}  // namespace bantam::inline v0
