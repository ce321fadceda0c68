// The layer that drafts, as DeepSeek V3 and GLM-4.5 have it behind the others.
#pragma once

#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0::archs {

inline constexpr TensorKey nextn_tensors[] = {
    {Role::draft_projection, "model.layers.{}.eh_proj.weight", "blk.{}.nextn.eh_proj.weight"},
    {Role::draft_embedding_norm, "model.layers.{}.enorm.weight", "blk.{}.nextn.enorm.weight"},
    {Role::draft_state_norm, "model.layers.{}.hnorm.weight", "blk.{}.nextn.hnorm.weight"},
    {Role::draft_final_norm, "model.layers.{}.shared_head.norm.weight", "blk.{}.nextn.shared_head_norm.weight", Presence::optional},
};

}  // namespace bantam::inline v0::archs
