// The tensors that a channel or a head runs through.
#include "parts.hpp"

#include <algorithm>
#include <numeric>

#include "bantam/quant/formats.hpp"

namespace bantam::inline v0 {

namespace {

enum class Axis : std::uint8_t { none, rows, columns };

/// How a part lies in a tensor: along which axis, and in how many neighbors.
struct Lie {
  Axis axis = Axis::none;
  std::int64_t neighbors = 0;
};

/// Every role is listed: one that is not would silently keep its shape.
Lie lie_of(Role role, Part part, const ModelConfig& c) noexcept {
  const std::int64_t queries = c.heads / c.kv_heads * c.head_dim;
  const auto lie = [&](Part of, Axis axis, std::int64_t neighbors) { return part == of ? Lie{axis, neighbors} : Lie{}; };
  const auto inside = [&](Part of, Axis axis, std::int64_t neighbors) {
    // What lies along the parts inside of a block one way lies along the residual stream the other.
    return part == Part::hidden ? Lie{axis == Axis::rows ? Axis::columns : Axis::rows, 1} : lie(of, axis, neighbors);
  };
  switch (role) {
    case Role::rope_divisors:
    case Role::q_norm:  // one for all heads
    case Role::k_norm: return {};
    case Role::embedding:
    case Role::head: return lie(Part::hidden, Axis::columns, 1);
    case Role::final_norm:
    case Role::attention_norm:
    case Role::o_bias:
    case Role::ffn_norm: return lie(Part::hidden, Axis::rows, 1);
    case Role::q_bias: return lie(Part::heads, Axis::rows, queries);
    case Role::k_bias:
    case Role::v_bias: return lie(Part::heads, Axis::rows, c.head_dim);
    case Role::q: return inside(Part::heads, Axis::rows, queries);
    case Role::k:
    case Role::v: return inside(Part::heads, Axis::rows, c.head_dim);
    case Role::o: return inside(Part::heads, Axis::columns, queries);
    case Role::gate:
    case Role::up: return inside(Part::channels, Axis::rows, 1);
    case Role::down: return inside(Part::channels, Axis::columns, 1);
  }
  return {};
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
  std::vector<LayerShape> shapes;
  for (const std::int64_t layer : layers) shapes.push_back(config.shape_of(layer));
  fewer.first_window_layer = std::ranges::count_if(layers, [&](std::int64_t layer) { return layer < config.first_window_layer; });
  fewer.layers = static_cast<std::int64_t>(layers.size());
  fewer.set_shapes(std::move(shapes));
  return fewer;
}

Role reader_of(Part part) noexcept { return part == Part::heads ? Role::o : Role::down; }

std::int64_t columns_of(Part part, const ModelConfig& config) noexcept { return lie_of(reader_of(part), part, config).neighbors; }

std::vector<std::int64_t> spread(std::span<const std::int64_t> parts, std::int64_t neighbors) {
  std::vector<std::int64_t> all;
  for (const std::int64_t part : parts) {
    for (std::int64_t i = 0; i < neighbors; ++i) all.push_back(part * neighbors + i);
  }
  return all;
}

Tensor<float, 2> keep_columns(const Tensor<float, 2>& weights, std::span<const std::int64_t> kept) {
  Tensor<float, 2> out({weights.extent(0), static_cast<std::int64_t>(kept.size())});
  for (std::int64_t r = 0; r < out.extent(0); ++r) {
    for (std::int64_t c = 0; c < out.extent(1); ++c) out(r, c) = weights(r, kept[static_cast<std::size_t>(c)]);
  }
  return out;
}

void keep_parts(LayerWeights& block, Part part, std::span<const std::int64_t> kept, const ModelConfig& config) {
  ModelWeights one;
  one.layers.push_back(std::move(block));
  for (const auto& list : {config.arch->tensors, config.arch->more_tensors}) {
    for (const TensorKey& key : list) {
      const Lie lie = lie_of(key.role, part, config);
      if (lie.axis == Axis::none) continue;
      const std::vector<std::int64_t> places = spread(kept, lie.neighbors);
      if (WeightMatrix* matrix = matrix_of(one, key.role, 0); matrix != nullptr && !matrix->empty()) {
        const FormatInfo& format = matrix->format().is_float ? matrix->format() : format_info<F32Format>();
        const Tensor<float, 2> weights = matrix->dequantize();
        *matrix = WeightMatrix::quantize(lie.axis == Axis::rows ? keep_rows(weights, places) : keep_columns(weights, places), format);
      } else if (std::vector<float>* vector = vector_of(one, key.role, 0); vector != nullptr && !vector->empty()) {
        std::vector<float> left;
        for (const std::int64_t i : places) left.push_back((*vector)[static_cast<std::size_t>(i)]);
        *vector = std::move(left);
      }
    }
  }
  block = std::move(one.layers[0]);
}

}  // namespace bantam::inline v0
