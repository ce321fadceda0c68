// The linear layer and the embedding.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>

#include "bantam/core/team.hpp"
#include "bantam/nn/activations.hpp"
#include "bantam/quant/weights.hpp"

namespace bantam::inline v0::nn {

/// One matrix that linear() multiplies by: w (rows, columns), out (tokens, rows), bias null or (rows).
struct Product {
  const WeightMatrix& w;
  const float* bias = nullptr;
  OutputRows out;
  int ordered_form = 0;  ///< what the Readers that x was gathered for say of w
};

namespace detail {

/// Panels of all products together.
[[nodiscard]] inline std::int64_t panels_of(std::span<const Product> products) noexcept {
  std::int64_t panels = 0;
  for (const Product& p : products) panels += div_up<std::int64_t>(p.w.rows(), panel_rows);
  return panels;
}

/// Panels `part`, counted through all products, for the rows `tokens` of x, to as many rows of the outputs from `first_out` on.
/// tokens.begin is a multiple of 16, or there are fewer than 16.
inline void multiply_panels(const KernelTable& kernels, const Activations& x, Range tokens, std::span<const Product> products, Range part,
                            Fetch fetch, std::int64_t first_out) noexcept {
  std::int64_t first_panel = 0;  // of the product at hand, among all of them
  for (const Product& p : products) {
    const std::int64_t count = div_up<std::int64_t>(p.w.rows(), panel_rows);
    const Range range{std::max<std::int64_t>(0, part.begin - first_panel), std::min(count, part.end - first_panel)};
    first_panel += count;
    if (range.begin >= range.end) continue;
    BANTAM_ASSERT(x.columns() == p.w.columns());
    const FormatKernels& format = kernels_of(p.w.format(), kernels);
    const MatmulPart panel_range{tokens.end - tokens.begin, range.begin, range.end, fetch};
    const OutputRows out{p.out.values + first_out * p.out.stride, p.out.stride};
    if (format.matmul_q8 != nullptr) {
      format.matmul_q8(p.w.view(), x.quantized(p.w, p.ordered_form).from(tokens.begin, tokens.end - tokens.begin), out, panel_range);
    } else {
      format.matmul_f32(p.w.view(), x.floats().from(tokens.begin), out, panel_range);
    }
    if (p.bias == nullptr) continue;
    const std::int64_t first = range.begin * panel_rows;
    const std::int64_t last = std::min(range.end * panel_rows, p.w.rows());
    for (std::int64_t token = 0; token < panel_range.tokens; ++token) kernels.add(out.values + token * out.stride + first, p.bias + first, last - first);
  }
}

}  // namespace detail

/// out = x wT (+ bias) of each product, dealt out panel by panel, of all of them together, as `work`: x (tokens, columns). Quantized
/// matrices read the 8-bit form of x, float matrices the floats; both must be ready in all rows.
inline void linear(const KernelTable& kernels, Team& team, const Activations& x, std::initializer_list<Product> list,
                   Fetch fetch = Fetch::first_level, Work work = Work::products) noexcept {
  const std::span<const Product> products(list.begin(), list.size());
  const std::int64_t panels = detail::panels_of(products);
  const auto run = [&](Range part, int) { detail::multiply_panels(kernels, x, {0, x.tokens()}, products, part, fetch, 0); };
  team.deal(panels, team.grain_of(panels), run, work);
}

/// The first row of a part where rows of all tokens follow each other part by part, as multiply_panels() asks for.
[[nodiscard]] inline std::int64_t first_row_of(std::int64_t part, std::int64_t tokens) noexcept { return part * (tokens < 16 ? tokens : round_up<std::int64_t>(tokens, 16)); }

/// Matrices in one, below each other, each for inputs of its own: multiplies those of part i, rows first_row_of(i, tokens) of x, by the i-th of
/// `parts` equal parts of w's rows, of whole panels. Dealt out by (part, panel). Outputs of part i begin at column i (rows of a part + step).
inline void linear_by_parts(const KernelTable& kernels, Team& team, const WeightMatrix& w, std::int64_t parts, const Activations& x, std::int64_t tokens, OutputRows out,
                            std::int64_t step = 0, Fetch fetch = Fetch::first_level) noexcept {
  const std::int64_t panels = w.rows() / parts / panel_rows, items = parts * panels;
  team.deal(items, team.grain_of(items), [&](Range range, int) {
    for (std::int64_t at = range.begin; at < range.end;) {
      const std::int64_t part = at / panels, last = std::min((part + 1) * panels, range.end), first = first_row_of(part, tokens);
      // A product's outputs are behind those of the parts before it.
      const Product product{w, nullptr, {out.values + part * step, out.stride}};
      detail::multiply_panels(kernels, x, {first, first + tokens}, {&product, 1}, {at, last}, fetch, 0);
      at = last;
    }
  }, Work::products);
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
