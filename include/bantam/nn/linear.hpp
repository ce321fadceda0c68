// The linear layer and the embedding.
#pragma once

#include "bantam/nn/activations.hpp"
#include "bantam/quant/weights.hpp"

namespace bantam::inline v0::nn {

/// This worker's part of out = x wT (+ bias), dealt out panel by panel: x (tokens, columns), w (rows, columns), out (tokens, rows).
/// Quantized matrices read the 8-bit form of x, float matrices the floats; both must be
/// ready in all rows. Barrier afterwards before anyone reads `out`. bias: null or (rows). `ordered_form`: what the Readers
/// that x was gathered for say of w.
inline void linear(const KernelTable& kernels, const Worker& worker, const WeightMatrix& w, const Activations& x,
                   const float* bias, const OutputRows& out, int ordered_form = 0) noexcept {
  BANTAM_ASSERT(x.columns() == w.columns());
  const FormatKernels& format = kernels_of(w.format(), kernels);
  const std::int64_t panels = div_up<std::int64_t>(w.rows(), panel_rows);
  // Parts long enough to stream, short enough that none waits long for the last.
  const std::int64_t grain = std::max<std::int64_t>(1, panels / (8 * worker.count()));
  worker.deal(panels, grain, [&](Range range) {
    const MatmulPart part{x.tokens(), range.begin, range.end};
    if (format.matmul_q8 != nullptr) {
      format.matmul_q8(w.view(), x.quantized(w, ordered_form), out, part);
    } else {
      format.matmul_f32(w.view(), x.floats(), out, part);
    }
    if (bias == nullptr) return;
    const std::int64_t first = range.begin * panel_rows;
    const std::int64_t last = std::min(range.end * panel_rows, w.rows());
    for (std::int64_t token = 0; token < x.tokens(); ++token) {
      kernels.add(out.values + token * out.stride + first, bias + first, last - first);
    }
  });
}

/// Row `id` of an embedding table (vocabulary, dim) as floats. out: (dim). Throws invalid_argument for an id outside or
/// another length of `out`.
inline void embedding(const WeightMatrix& table, std::int64_t id, std::span<float> out, RowCodes& scratch) {
  if (id < 0 || id >= table.rows()) fail(Errc::invalid_argument, "token id: expected 0 to ", table.rows() - 1, ", found ", id);
  if (static_cast<std::int64_t>(out.size()) != table.columns()) {
    fail(Errc::invalid_argument, "embedding: expected room for ", table.columns(), " numbers, found ", out.size());
  }
  table.read_row(id, out, scratch);
}

}  // namespace bantam::inline v0::nn
