// Roles that share a tensor, each as its part of it.
#pragma once

#include "bantam/model/arch_spec.hpp"
#include "transforms.hpp"

namespace bantam::inline v0 {

/// The indices of a role along the axis on which it is fused, `count` of them.
[[nodiscard]] Selection fused_part(const Fused& fused, std::int64_t count) noexcept;

/// The size of a role's matrices.
struct ExpertShape {
  std::int64_t experts = 0, rows = 0, columns = 0;
};
/// One role's matrices of all experts of a layer, in their order: of the tensor `name`, or of NAME_blocks and NAME_scales, which are
/// MXFP4. Empty where `tensors` has neither. Throws corrupt naming the tensor that has another shape or type, or no finite scales.
[[nodiscard]] std::vector<SharedSource> open_fused_experts(const TensorSource& tensors, const std::string& file, const std::string& name, const Fused& fused,
                                                           const ExpertShape& shape);

/// Up-projections of latent attention: of each head the `nope` rows of its keys, then the rows of its values.
struct LatentShape {
  std::int64_t heads = 0, nope = 0, value = 0, rank = 0;
};
/// (heads * value, rank), or of keys the transpose in each head: (heads * rank, nope). In floats.
[[nodiscard]] SharedSource latent_part(const SharedSource& from, const LatentShape& shape, const Fused& fused);

}  // namespace bantam::inline v0
