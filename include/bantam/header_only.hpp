// Everything of bantam that works on matrices and blocks of one's own, with no library to link: tensors, formats, GPTQ, AWQ, HQQ,
// pruning, observers, and the blocks of transformers. `g++ -std=c++20 -I include mine.cpp` is all that it takes.
//
// Products are those of the generic kernels, whose bits are everybody's. They fuse a product and a sum: with flags that let the compiler
// use that instruction (-march=native) GPTQ is 16 times as fast. -ffp-contract=off keeps compilers from fusing anything else. Files,
// tokenizers, models, sessions and formats by their names are the library's (bantam/bantam.hpp).
#pragma once

#if defined(BANTAM_ASSERT)  // of core/error.hpp, which all headers rest on
#error "bantam/header_only.hpp stands for the headers of bantam that need its library: include it before any other, or them alone"
#endif
#define BANTAM_HEADER_ONLY
// A version of its own to the linker, as each version of the library is: what is compiled here may differ from what the library holds,
// and a program may have both, in different files.
#define v0 header_only

#include "bantam/calibrate/observers.hpp"
#include "bantam/calibrate/rotation.hpp"
#include "bantam/compress/awq.hpp"
#include "bantam/compress/descent.hpp"
#include "bantam/compress/gptq.hpp"
#include "bantam/compress/nearest.hpp"
#include "bantam/compress/outliers.hpp"
#include "bantam/compress/smooth.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/nn/blocks/attention.hpp"
#include "bantam/nn/blocks/attention_beside_space.hpp"
#include "bantam/nn/blocks/channel_delta.hpp"
#include "bantam/nn/blocks/experts.hpp"
#include "bantam/nn/blocks/gated_delta.hpp"
#include "bantam/nn/blocks/latent_attention.hpp"
#include "bantam/nn/blocks/mlp.hpp"
#include "bantam/nn/blocks/per_layer_embedding.hpp"
#include "bantam/nn/blocks/short_convolution.hpp"
#include "bantam/nn/blocks/state_space.hpp"
#include "bantam/nn/ops.hpp"
#include "bantam/prune/compensation.hpp"
#include "bantam/prune/mask.hpp"
#include "bantam/prune/sparse_format.hpp"
#include "bantam/tensor/random.hpp"

// What the library compiles once.
#include "bantam/calibrate/impl/cholesky.hpp"
#include "bantam/calibrate/impl/cholesky_loops.hpp"
#include "bantam/calibrate/impl/hessian.hpp"
#include "bantam/calibrate/impl/product.hpp"
#include "bantam/calibrate/impl/rotation.hpp"
#include "bantam/compress/impl/awq.hpp"
#include "bantam/compress/impl/descent.hpp"
#include "bantam/compress/impl/gptq.hpp"
#include "bantam/compress/impl/nearest.hpp"
#include "bantam/compress/impl/outliers.hpp"
#include "bantam/compress/impl/smooth.hpp"
#include "bantam/core/impl/cpu.hpp"
#include "bantam/core/impl/memory.hpp"
#include "bantam/core/impl/team.hpp"
#include "bantam/core/impl/team_loops.hpp"
#include "bantam/kernels/impl/generic_table.hpp"
#include "bantam/prune/impl/compensation.hpp"
#include "bantam/prune/impl/mask.hpp"
#include "bantam/prune/impl/sparse_format.hpp"
#include "bantam/quant/impl/trellis_search.hpp"
#include "bantam/quant/impl/weights.hpp"

#undef v0
