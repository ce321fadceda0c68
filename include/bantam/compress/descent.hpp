// Coordinate descent: codes and scales of a rounded matrix moved, one after the other, to where they lose least.
#pragma once

#include <span>

#include "bantam/quant/format_info.hpp"
#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0 {

/// Lowers trace(E H ET), where E, (rows, columns), is what the weights were less what `rows` stand for, and H,
/// (columns, columns), the second moments of their inputs: every code becomes the nearest of its grid to where its own
/// optimum lies while all others stay, and so does every scale that a group has for itself. Up to `sweeps` times over the
/// columns, or until no code changes; never worse. Returns what the trace lost. The codes alone are the descent of QuantEase
/// (arXiv:2309.01885). Codes of weights that `removed`, empty or (rows, columns), marks stay. On all cores: rows columns^2
/// multiply-adds and as many again each sweep. Codes that come in vectors
/// move together, to what is nearest in the vector's own moments; those of a trellis (FormatInfo::step_bits) cannot. Memory: rows columns floats.
[[nodiscard]] double descend(const Tensor<float, 2>& errors, const Tensor<float, 2>& h, const FormatInfo& format, int sweeps,
                             std::span<RowCodes> rows, TensorView<const std::uint8_t, 2> removed = {});

}  // namespace bantam::inline v0
