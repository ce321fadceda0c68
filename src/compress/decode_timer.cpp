// Models of zeros.
#include "decode_timer.hpp"

#include <algorithm>
#include <cstring>

#include "bantam/core/stopwatch.hpp"
#include "bantam/model/residency.hpp"
#include "bantam/nn/kv_state.hpp"
#include "prune/parts.hpp"

namespace bantam::inline v0 {

namespace {

/// Rows of zeros. Where a token reads all of them they are really there, every page of memory of its own.
WeightMatrix zeros(const FormatInfo& format, std::int64_t rows, std::int64_t columns, bool read) {
  const auto bytes = static_cast<std::size_t>(format.matrix_bytes(rows, columns));
  const std::shared_ptr<std::byte> data = allocate_storage(bytes);
  if (read) std::memset(data.get(), 0, bytes);
  return {format, rows, columns, data};
}

/// The first layers of a model, of zeros in the formats that a plan gives them.
ModelWeights zeros_of(const Checkpoint& shapes, const Plan& plan, std::int64_t layers) {
  ModelWeights weights;
  const ModelConfig fewer = with_layers(shapes.config(), first_numbers(layers));
  for (std::int64_t layer = 0; layer < layers; ++layer) make_room(weights.layers.emplace_back(), shapes.config().layer(layer));
  auto planned = plan.matrices.begin();
  for (const CheckpointTensor& tensor : shapes.tensors()) {
    const FormatInfo* format = tensor.is_matrix ? (planned++)->format : nullptr;
    if (tensor.layer >= layers) continue;
    if (format != nullptr) {
      const auto [rows, columns] = shape_of(tensor.role, tensor.layer, fewer);
      *matrix_of(weights, tensor) = zeros(*format, rows, columns, detail::is_read_whole(tensor, shapes.config()));
    } else if (std::vector<float>* vector = vector_of(weights, tensor)) {
      vector->assign(static_cast<std::size_t>(tensor.columns), 1.0f);
    }
  }
  complete(weights, shapes.config());
  return weights;
}

std::int64_t fitting(const Checkpoint& shapes, const Plan& plan, std::int64_t room) {
  const std::int64_t all = shapes.config().layers;
  std::int64_t bytes = 0;
  auto planned = plan.matrices.begin();
  for (const CheckpointTensor& tensor : shapes.tensors()) {
    if (!tensor.is_matrix) continue;
    if (tensor.layer >= 0) bytes += planned->format->matrix_bytes(tensor.rows, tensor.columns);
    ++planned;
  }
  return std::clamp(room / std::max<std::int64_t>(bytes / all, 1), std::min<std::int64_t>(2, all), all);
}

}  // namespace

struct DecodeTimer::Run {
  Run(const ModelConfig& whole, const ModelWeights& weights, std::int64_t layers)
      : config(with_layers(whole, first_numbers(layers))), forward(config, weights, 1, 0), state(config.new_state("f16")) {}
  double seconds() {
    const TokenId token = 0;
    const SequenceInput sequence{{&token, 1}, &state, 0};
    state.truncate(0);
    const Stopwatch watch;
    forward.run({&sequence, 1}, [](std::int64_t, std::int64_t, std::span<const float>) {}, [](std::int64_t) { return true; });
    return watch.seconds();
  }
  const ModelConfig config;
  Forward forward;
  nn::SequenceState state;
};

DecodeTimer::DecodeTimer(const Checkpoint& shapes, const Plan& plan, std::int64_t room)
    : all_(shapes.config().layers), fitting_(fitting(shapes, plan, room)), weights_(zeros_of(shapes, plan, fitting_)) {
  runs_.push_back(std::make_unique<Run>(shapes.config(), weights_, fitting_));
  if (fitting_ < all_) runs_.push_back(std::make_unique<Run>(shapes.config(), weights_, fitting_ / 2));
}

DecodeTimer::~DecodeTimer() = default;

double DecodeTimer::seconds() {
  const double whole = runs_[0]->seconds();
  if (fitting_ == all_) return whole;
  const double a_layer = (whole - runs_[1]->seconds()) / static_cast<double>(fitting_ - fitting_ / 2);
  return whole + a_layer * static_cast<double>(all_ - fitting_);
}

}  // namespace bantam::inline v0
