// The tensors that a channel or a head runs through.
#include "parts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bantam/model/roles.hpp"
#include "bantam/prune/compensation.hpp"
#include "bantam/quant/formats.hpp"

namespace bantam::inline v0 {

namespace {

/// How many neighbors along an axis belong to a part; 0: it does not count such parts.
std::int64_t part_size(WeightAxis axis, Part part, const ModelConfig& c, std::int64_t layer) noexcept {
  const std::int64_t group = c.group_of(c.layer(layer));  // query heads, which go with the key-value head that they share
  switch (part) {
    case Part::hidden: return is_stream(axis) ? 1 : 0;
    case Part::channels: return axis == WeightAxis::ffn ? 1 : 0;
    case Part::experts: return axis == WeightAxis::experts ? 1 : 0;
    case Part::heads:
      switch (axis) {
        case WeightAxis::keys: return c.head_dim;
        case WeightAxis::values: return c.value_dim;
        case WeightAxis::queries: return group * c.head_dim;
        case WeightAxis::outputs:
        case WeightAxis::gates: return group * c.value_dim;
        case WeightAxis::latent_queries: return group * c.kv_rank;
        case WeightAxis::heads: return group;
        default: return 0;
      }
    case Part::layers: break;
  }
  return 0;
}

Tensor<float, 2> keep_rows(const Tensor<float, 2>& weights, std::span<const std::int64_t> kept) {
  const std::int64_t columns = weights.extent(1);
  Tensor<float, 2> out({static_cast<std::int64_t>(kept.size()), columns});
  for (std::size_t r = 0; r < kept.size(); ++r) std::copy_n(&weights(kept[r], 0), columns, &out(static_cast<std::int64_t>(r), 0));
  return out;
}

}  // namespace

std::vector<std::int64_t> first_numbers(std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

PartChoice choose_in_groups(std::span<const double> scores, std::int64_t count, std::int64_t groups) {
  const std::int64_t size = static_cast<std::int64_t>(scores.size()) / groups;
  PartChoice all;
  for (std::int64_t group = 0; group < groups; ++group) {
    const PartChoice choice = choose(scores.subspan(static_cast<std::size_t>(group * size), static_cast<std::size_t>(size)), count / groups);
    for (const std::int64_t i : choice.kept) all.kept.push_back(group * size + i);
    for (const std::int64_t i : choice.removed) all.removed.push_back(group * size + i);
  }
  return all;
}

PartChoice choose(std::span<const double> scores, std::int64_t count) {
  std::vector<std::int64_t> order = first_numbers(static_cast<std::int64_t>(scores.size()));
  std::ranges::stable_sort(order, std::greater(), [&](std::int64_t i) { return scores[static_cast<std::size_t>(i)]; });
  PartChoice choice{{order.begin(), order.begin() + count}, {order.begin() + count, order.end()}};
  std::ranges::sort(choice.kept);
  std::ranges::sort(choice.removed);
  return choice;
}

ModelConfig with_layers(const ModelConfig& config, std::span<const std::int64_t> layers) {
  ModelConfig fewer = config;
  std::vector<LayerSpec> left;
  for (const std::int64_t layer : layers) left.push_back(config.layer(layer));
  fewer.set_layers(std::move(left));
  fewer.drafting.clear();  // it knows the states of the whole model
  return fewer;
}

Role reader_of(Part part) noexcept { return part == Part::heads ? Role::o : Role::down; }

std::int64_t columns_of(Part part, const ModelConfig& config, std::int64_t layer) noexcept { return part_size(info_of(reader_of(part)).columns, part, config, layer); }

std::vector<std::int64_t> spread(std::span<const std::int64_t> parts, std::int64_t neighbors) {
  std::vector<std::int64_t> all;
  for (const std::int64_t part : parts) {
    for (std::int64_t i = 0; i < neighbors; ++i) all.push_back(part * neighbors + i);
  }
  return all;
}

void keep_parts(LayerWeights& block, Part part, std::span<const std::int64_t> kept, const ModelConfig& config, std::int64_t layer) {
  for (const RoleInfo& info : roles) {
    const std::int64_t of_rows = part_size(info.rows, part, config, layer), of_columns = part_size(info.columns, part, config, layer);
    if (of_rows + of_columns == 0) continue;
    const std::vector<std::int64_t> places = spread(kept, of_rows + of_columns);  // no weight has the parts along both
    if (WeightMatrix* matrix = matrix_of(block, info.role); matrix != nullptr && !matrix->empty()) {
      const FormatInfo& format = matrix->format().is_float ? matrix->format() : format_info<F32Format>();
      const Tensor<float, 2> weights = matrix->dequantize();
      *matrix = WeightMatrix::quantize(of_rows > 0 ? keep_rows(weights, places) : keep_columns(weights, places), format);
    } else if (std::vector<float>* vector = vector_of(block, info.role); vector != nullptr && !vector->empty()) {
      // An RMS norm over what is left takes the mean of fewer squares: as if the others were 0, not gone.
      const bool is_norm = std::ranges::any_of(input_groups(), [&](const InputGroup& group) { return group.norm == info.role; });
      const float factor = is_norm && !places.empty() ? std::sqrt(static_cast<float>(vector->size()) / static_cast<float>(places.size())) : 1;
      std::vector<float> left;
      for (const std::int64_t i : places) left.push_back(factor * (*vector)[static_cast<std::size_t>(i)]);
      *vector = std::move(left);
    }
  }
  if (part != Part::experts) return;
  std::vector<nn::MlpWeights> experts;
  for (const std::int64_t e : kept) experts.push_back(std::move(block.experts.experts[static_cast<std::size_t>(e)]));
  block.experts.experts = std::move(experts);
}

}  // namespace bantam::inline v0
