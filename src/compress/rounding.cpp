// Rounding one matrix to nearest, and the error of any rounded one.
#include "rounding.hpp"

#include <cmath>

#include "bantam/calibrate/product.hpp"
#include "bantam/core/error.hpp"
#include "bantam/core/parallel.hpp"
#include "calibrate/model_source.hpp"

namespace bantam::inline v0 {

namespace {

struct Measured {
  double relative_error;
  std::int64_t zeros;  ///< of W'
};

/// ||W - W'|| / ||W|| of a matrix, on all cores; `rows_of` makes the rows of a panel, from row `first` on, of W and of W'. Sums are
/// added in row order: the same on any machine. Throws naming the weight where W' is not finite.
Measured measure(const std::string& name, const FormatInfo& format, std::int64_t rows, std::int64_t columns,
                 FunctionRef<void(std::int64_t first, std::span<float> original, std::span<float> decoded, RowCodes& scratch)> rows_of) {
  struct Sums {
    double difference = 0;
    double size = 0;
    std::int64_t zeros = 0;
  };
  std::vector<Sums> panels(static_cast<std::size_t>(div_up<std::int64_t>(rows, panel_rows)));
  parallel_for(static_cast<std::int64_t>(panels.size()), 1, [&](Range range) {
    std::vector<float> original, decoded;
    RowCodes scratch;
    for (std::int64_t p = range.begin; p < range.end; ++p) {
      Sums& sums = panels[static_cast<std::size_t>(p)];
      const std::int64_t first = p * panel_rows;
      const auto size = static_cast<std::size_t>(std::min<std::int64_t>(panel_rows, rows - first) * columns);
      original.resize(size);
      decoded.resize(size);
      rows_of(first, original, decoded, scratch);
      for (std::size_t i = 0; i < size; ++i) {
        const auto width = static_cast<std::size_t>(columns);
        if (!std::isfinite(decoded[i])) fail_too_large(name, format, original[i], first + static_cast<std::int64_t>(i / width), i % width);
        const double d = static_cast<double>(original[i]) - static_cast<double>(decoded[i]);
        sums.difference += d * d;
        sums.zeros += decoded[i] == 0;
        sums.size += static_cast<double>(original[i]) * static_cast<double>(original[i]);
      }
    }
  });
  Sums all;
  for (const Sums& sums : panels) {
    all.difference += sums.difference;
    all.size += sums.size;
    all.zeros += sums.zeros;
  }
  return {all.size > 0 ? std::sqrt(all.difference / all.size) : 0.0, all.zeros};
}

}  // namespace

void fail_too_large(const std::string& name, const FormatInfo& format, float value, std::int64_t row, std::size_t column) {
  fail(Errc::invalid_argument, name, ": expected weights that ", format.name, " can hold, found ", value, " at (", row, ", ", column, ")");
}

Rounded round_matrix(const std::string& name, std::int64_t rows, std::int64_t columns, const FormatInfo& format, ReadRow read,
                     const std::optional<NearestOptions>& fitted) {
  const auto data = allocate_storage(static_cast<std::size_t>(format.matrix_bytes(rows, columns)));
  const std::int64_t panel_bytes = format.panel_bytes(columns);
  const auto width = static_cast<std::size_t>(columns);
  const Measured found = measure(name, format, rows, columns, [&](std::int64_t first, std::span<float> original, std::span<float> decoded, RowCodes& scratch) {
    std::byte* panel = data.get() + first / panel_rows * panel_bytes;
    for (std::size_t at = 0, row = 0; at < original.size(); at += width, ++row) {
      read(first + static_cast<std::int64_t>(row), original.subspan(at, width), scratch);
      check_finite(name, first + static_cast<std::int64_t>(row), original.subspan(at, width));
    }
    std::ranges::copy(original, decoded.begin());
    if (format.keep_part != nullptr) format.keep_part(panel, columns, decoded);
    for (std::size_t at = 0, lane = 0; at < decoded.size(); at += width, ++lane) {
      const std::span<float> row = decoded.subspan(at, width);
      if (fitted) {
        round_row(row, format, *fitted, scratch);
        format.store_codes(panel, static_cast<int>(lane), columns, scratch);
      } else {
        store_row(format, panel, static_cast<int>(lane), row, scratch);
      }
      format.decode_row(panel, static_cast<int>(lane), row, scratch);
    }
  });
  return {{format, rows, columns, data}, found.relative_error, found.zeros};
}

Rounded round_matrix(const std::string& name, TensorView<const float, 2> weights, const FormatInfo& format) {
  return round_matrix(name, weights.extent(0), weights.extent(1), format, [&](std::int64_t row, std::span<float> to, RowCodes&) {
    for (std::size_t c = 0; c < to.size(); ++c) to[c] = weights(row, static_cast<std::int64_t>(c));
  });
}

bool is_pruned(const Recipe& recipe, const CheckpointTensor& tensor) noexcept {
  const std::optional<Pruning>& pruning = recipe.options().pruning;
  return pruning && tensor.is_matrix && tensor.layer >= 0 && !tensor.is_drafting && pruning->sparsity_of(tensor.name).any();
}

Mask mask_of(const Pruning& pruning, const Tensor<float, 2>& weights, std::span<const float> mean_squares) {
  // Wanda's also where sparsegpt has to do without H^-1.
  if (needs_calibration(pruning.method)) return wanda_mask(weights, mean_squares, pruning.sparsity);
  return magnitude_mask(weights, pruning.sparsity, pruning.method == PruneMethod::magnitude_row ? MaskScope::row : MaskScope::matrix);
}

Rounded round_alone(const Recipe& recipe, const CheckpointTensor& tensor, const FormatInfo& format, ReadRow read) {
  std::optional<NearestOptions> fitted;
  if (recipe.method() == Method::hqq && format.has_minimums) fitted = {.search = GridSearch::half_quadratic};
  if (format.step_bits != 0) fitted = NearestOptions{};  // all cores, and more paths than encode_row() follows
  if (recipe.options().clip && !format.is_float) fitted = nearest_options(*recipe.options().clip);
  if (const auto importance = recipe.importance_of(tensor.name); !importance.empty() && !format.is_float) {
    if (!fitted) fitted.emplace();
    fitted->importance = importance;
  }
  if (!is_pruned(recipe, tensor)) return round_matrix(tensor.name, tensor.rows, tensor.columns, format, read, fitted);
  const WeightMatrix original = round_matrix(tensor.name, tensor.rows, tensor.columns, format_info<F32Format>(), read).matrix;
  const Tensor<float, 2> weights = original.dequantize();
  const Tensor<float, 2> left = masked(weights, mask_of(*recipe.pruning_of(tensor.name), weights));
  return measured(tensor.name, original, fitted ? nearest(left, format, *fitted) : WeightMatrix::quantize(left, format));
}

double output_error(TensorView<const float, 2> inputs, const WeightMatrix& original, const WeightMatrix& rounded) {
  constexpr std::int64_t rows_at_once = 1024;
  const std::int64_t columns = original.columns();
  double difference = 0, size = 0;
  for (std::int64_t first = 0; first < original.rows(); first += rows_at_once) {
    const std::int64_t count = std::min(rows_at_once, original.rows() - first);
    Tensor<float, 2> was({count, columns}), lost({count, columns});
    parallel_for(count, 16, [&](Range rows) {
      std::vector<float> is(static_cast<std::size_t>(columns));
      RowCodes scratch;
      for (std::int64_t r = rows.begin; r < rows.end; ++r) {
        original.read_row(first + r, {&was(r, 0), static_cast<std::size_t>(columns)}, scratch);
        rounded.read_row(first + r, is, scratch);
        for (std::int64_t c = 0; c < columns; ++c) lost(r, c) = was(r, c) - is[static_cast<std::size_t>(c)];
      }
    });
    const auto squares = [&](const Tensor<float, 2>& weights) {
      double sum = 0;  // in one order, whatever the threads
      const Tensor<float, 2> outputs = times_transposed(inputs, weights);
      for (const float y : outputs.span()) sum += static_cast<double>(y) * static_cast<double>(y);
      return sum;
    };
    difference += squares(lost);
    size += squares(was);
  }
  return size > 0 ? std::sqrt(difference / size) : 0.0;
}

Rounded measured(const std::string& name, const WeightMatrix& original, WeightMatrix rounded) {
  const Measured found = measure(name, rounded.format(), rounded.rows(), rounded.columns(),
                                 [&](std::int64_t first, std::span<float> was, std::span<float> is, RowCodes& scratch) {
                                   const auto width = static_cast<std::size_t>(rounded.columns());
                                   for (std::size_t at = 0; at < was.size(); at += width, ++first) {
                                     original.read_row(first, was.subspan(at, width), scratch);
                                     rounded.read_row(first, is.subspan(at, width), scratch);
                                   }
                                 });
  return {std::move(rounded), found.relative_error, found.zeros};
}

}  // namespace bantam::inline v0
