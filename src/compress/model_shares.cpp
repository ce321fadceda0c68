// Counting weights by size.
#include "model_shares.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>

#include "bantam/core/parallel.hpp"
#include "bantam/model/roles.hpp"

namespace bantam::inline v0 {

namespace {

/// By exponent and the first seven bits of the mantissa: ascending sizes.
constexpr std::size_t sizes = std::size_t{1} << 15;

struct Counts {
  std::string name;
  std::vector<std::uint32_t> of_size;
};

std::vector<std::uint32_t> count_sizes(const WeightMatrix& matrix) {
  std::vector<std::uint32_t> all(sizes);
  std::mutex mutex;
  parallel_for(matrix.rows(), 64, [&](Range rows) {
    std::vector<std::uint32_t> counts(sizes);
    std::vector<float> values(static_cast<std::size_t>(matrix.columns()));
    RowCodes scratch;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      matrix.read_row(row, values, scratch);
      for (const float value : values) ++counts[std::bit_cast<std::uint32_t>(std::fabs(value)) >> 16];
    }
    const std::lock_guard lock(mutex);
    for (std::size_t size = 0; size < sizes; ++size) all[size] += counts[size];
  });
  return all;
}

std::vector<Counts> count_model(const ModelSource& source, const Pruning& pruning) {
  const std::vector<CheckpointTensor>& tensors = source.checkpoint().tensors();
  std::vector<Counts> counts;
  for (std::int64_t layer = 0; layer < source.checkpoint().config().layers; ++layer) {
    const LayerWeights block = *source.acquire(layer);
    for (const CheckpointTensor& tensor : tensors) {
      const bool excepted = std::ranges::any_of(pruning.exceptions, [&](const auto& exception) { return matches(tensor.name, exception.pattern); });
      if (tensor.layer == layer && tensor.is_matrix && !excepted) counts.push_back({tensor.name, count_sizes(*matrix_of(block, tensor))});
    }
  }
  return counts;
}

}  // namespace

Recipe with_shares(const ModelSource& source, const Recipe& recipe) {
  const std::optional<Pruning>& asked = recipe.options().pruning;
  if (!asked || asked->method != PruneMethod::magnitude_model || asked->sparsity.share == 0) return recipe;
  const std::vector<Counts> counts = count_model(source, *asked);
  std::vector<std::uint64_t> of_all(sizes);
  std::uint64_t weights = 0;
  for (const Counts& matrix : counts) {
    for (std::size_t size = 0; size < sizes; ++size) {
      of_all[size] += matrix.of_size[size];
      weights += matrix.of_size[size];
    }
  }
  // The size at which enough are gone, and the share of those of this size that go with them.
  double left = asked->sparsity.share * static_cast<double>(weights);
  std::size_t bound = 0;
  for (; bound + 1 < sizes && static_cast<double>(of_all[bound]) <= left; ++bound) left -= static_cast<double>(of_all[bound]);
  const double of_bound = of_all[bound] > 0 ? left / static_cast<double>(of_all[bound]) : 0;

  Pruning found{PruneMethod::magnitude, asked->sparsity, asked->exceptions};
  for (const Counts& matrix : counts) {
    double gone = of_bound * matrix.of_size[bound], all = 0;
    for (std::size_t size = 0; size < sizes; ++size) {
      if (size < bound) gone += matrix.of_size[size];
      all += matrix.of_size[size];
    }
    // A matrix whose weights are all below the bound would go as a whole: one of its weights stays, so that it is still a share.
    found.except(matrix.name, Sparsity(std::min(gone, all - 1) / all));
  }
  return recipe.pruned(found);
}

}  // namespace bantam::inline v0
