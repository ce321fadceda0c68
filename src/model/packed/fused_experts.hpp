// Matrices of experts that Hugging Face folders have in one tensor: floats, or the MXFP4 of gpt-oss.
#pragma once

#include <memory>
#include <vector>

#include "bantam/model/arch_spec.hpp"
#include "packed_matrix.hpp"

namespace bantam::inline v0 {

/// One role's matrices (rows, columns) of all experts of a layer, in their order, out of the tensor `name`, or of NAME_blocks and
/// NAME_scales: E2M1 numbers, two a byte, the first in the low half, and E8M0 exponents, one each 32 columns. The tensors are added to
/// `taken`. Empty where the folder has neither. Throws corrupt naming the tensor that has another shape or type, or no finite scales.
[[nodiscard]] std::vector<std::unique_ptr<const PackedMatrix>> open_fused_experts(const TensorSource& source, const std::string& folder, const std::string& name,
                                                                                  const Fused& fused, std::int64_t experts, std::int64_t rows, std::int64_t columns,
                                                                                  std::vector<const TensorEntry*>& taken);

}  // namespace bantam::inline v0
