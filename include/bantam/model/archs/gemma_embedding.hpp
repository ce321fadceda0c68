// EmbeddingGemma: Gemma 3 whose tokens all see each other, with windows of both sides.
#pragma once

#include "bantam/model/archs/eurobert.hpp"
#include "bantam/model/archs/gemma.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigChoice gemma_embedding_choices[] = {{"use_bidirectional_attention", 1, 0}};

inline constexpr ArchSpec gemma_embedding = [] {
  ArchSpec spec = gemma3;
  spec.hf_class = "Gemma3TextModel";
  spec.paper = "arXiv:2509.20354";
  spec.gguf = "gemma-embedding";
  spec.causal = false;
  spec.choices = gemma_embedding_choices;
  spec.tensors = eurobert_tensors;
  spec.more_classes = {};
  return spec;
}();

}  // namespace bantam::inline v0::archs
