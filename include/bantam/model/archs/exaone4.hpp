// EXAONE 4: norms behind the blocks and none before them, norms of q and k head by head; 32B with windows in three of four layers, which rope
// turns alone.
#pragma once

#include "bantam/model/archs/olmo2.hpp"

namespace bantam::inline v0::archs {

inline constexpr ArchSpec exaone4{
    .name = "exaone4",
    .hf_class = "Exaone4ForCausalLM",
    .paper = "arXiv:2507.11407",
    .default_norm_eps = 1e-5,
    .full_attention_step = 4,
    .full_rope = nn::LayerRope::none,
    .config = llama_config,
    .tensors = olmo2_tensors,
};

}  // namespace bantam::inline v0::archs
