// Products on all cores, panel by panel: definitions of calibrate/product.hpp.
#pragma once

#include <algorithm>

#include "bantam/calibrate/product.hpp"
#include "bantam/core/once.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/kernels/of_format.hpp"
#include "bantam/quant/weights.hpp"

namespace bantam::inline v0 {

namespace detail {

/// Up to 32 rows as a panel of floats. Place by place of the panel: where rows are columns of another matrix they are read as they
/// lie there.
BANTAM_ONCE void fill_panel(std::byte* panel, TensorView<const float, 2> rows) {
  using L = Strip16<F32Format>;
  for_each_block<F32Format>(panel, rows.extent(1), [&](std::byte* block, std::int64_t first, int k) {
    const int columns = static_cast<int>(std::min<std::int64_t>(k, rows.extent(1) - first));
    for (int strip = 0; strip < panel_rows / strip_rows; ++strip) {
      const int lanes = static_cast<int>(std::clamp<std::int64_t>(rows.extent(0) - strip * strip_rows, 0, strip_rows));
      auto* plane = reinterpret_cast<float*>(block + L::plane_at(k, strip));
      if (lanes == 0) continue;
      const std::int64_t step = rows.stride(0);
      for (int column = 0; column < columns; ++column) {
        const float* from = &rows(strip * strip_rows, first + column);
        for (int lane = 0; lane < lanes; ++lane) plane[column * strip_rows + lane] = from[lane * step];
      }
    }
  });
}

}  // namespace detail

BANTAM_ONCE void for_products(TensorView<const float, 2> a, TensorView<const float, 2> b, bool upper,
                  FunctionRef<void(std::int64_t, std::int64_t, std::span<const float>)> f) {
  const FormatInfo& format = format_info<F32Format>();
  const FormatKernels& kernels = kernels_of(format, kernels_in_use());
  const std::int64_t m = a.extent(0), n = b.extent(0), k = b.extent(1);
  const std::int64_t panel_bytes = format.panel_bytes(k);
  constexpr std::int64_t tokens = 120;
  parallel_for(div_up<std::int64_t>(n, panel_rows), 1, [&](Range panels) {
    AlignedBuffer<std::byte> panel;
    panel.ensure(static_cast<std::size_t>(panel_bytes));
    std::vector<float> out(static_cast<std::size_t>(tokens * panel_rows));
    for (std::int64_t p = panels.begin; p < panels.end; ++p) {
      const std::int64_t first = p * panel_rows;
      const std::int64_t count = std::min<std::int64_t>(panel_rows, n - first);
      detail::fill_panel(panel.data(), b.slice(0, first, first + count));
      const std::int64_t rows = upper ? std::min(m, first + panel_rows) : m;
      for (std::int64_t r = 0; r < rows; r += tokens) {
        const std::int64_t now = std::min(tokens, rows - r);
        kernels.matmul_f32({panel.data(), count, k}, {&a(r, 0), a.stride(0)}, {out.data(), panel_rows}, {now, 0, 1});
        for (std::int64_t i = 0; i < now; ++i) f(r + i, first, {out.data() + i * panel_rows, static_cast<std::size_t>(count)});
      }
    }
  });
}

BANTAM_ONCE Tensor<float, 2> times_transposed(TensorView<const float, 2> a, TensorView<const float, 2> b) {
  Tensor<float, 2> out({a.extent(0), b.extent(0)});
  for_products(a, b, false, [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
    std::copy(values.begin(), values.end(), &out(row, first));
  });
  return out;
}

BANTAM_ONCE void add_products(Tensor<float, 2>& sum, const Tensor<float, 2>& x, TensorView<const float, 2> y) {
  for_products(x, y.transposed(), false, [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
    float* to = &sum(row, first);
    for (std::size_t i = 0; i < values.size(); ++i) to[i] += values[i];
  });
}

BANTAM_ONCE Tensor<float, 2> outputs_of(const WeightMatrix& weights, TensorView<const float, 2> x) {
  // Kernels for codes and floats are for results to check others by, and slow.
  if (!weights.format().is_float) return outputs_of(WeightMatrix::quantize(weights.dequantize(), format_info<F32Format>()), x);
  const FormatKernels& kernels = kernels_of(weights.format(), kernels_in_use());
  Tensor<float, 2> out({x.extent(0), weights.rows()});
  parallel_for(div_up<std::int64_t>(weights.rows(), panel_rows), 4, [&](Range panels) {
    kernels.matmul_f32(weights.view(), {x.data(), x.stride(0)}, {out.data(), weights.rows()}, {x.extent(0), panels.begin, panels.end});
  });
  return out;
}

BANTAM_ONCE double squared_outputs(const Tensor<float, 2>& differences, const Tensor<float, 2>& moments) {
  const std::int64_t columns = moments.extent(0);
  // One sum for each panel of columns, in row order: the same whatever the threads.
  std::vector<double> sums(static_cast<std::size_t>(div_up<std::int64_t>(columns, panel_rows)), 0.0);
  for_products(differences, moments, false, [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
    const float* d = &differences(row, first);
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += static_cast<double>(values[i]) * static_cast<double>(d[i]);
    sums[static_cast<std::size_t>(first / panel_rows)] += sum;
  });
  double all = 0;
  for (const double sum : sums) all += sum;
  return all;
}

BANTAM_ONCE Tensor<float, 2> moments_of(const Hessian& hessian, std::int64_t first, std::int64_t size) {
  Tensor<float, 2> moments({size, size});
  for (std::int64_t i = 0; i < size; ++i) {
    for (std::int64_t j = 0; j < size; ++j) moments(i, j) = hessian(first + i, first + j);
  }
  return moments;
}

}  // namespace bantam::inline v0
