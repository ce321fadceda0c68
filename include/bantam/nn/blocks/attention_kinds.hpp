// What attention of one model, or of one layer, may do differently from that of another.
#pragma once

#include <cmath>
#include <cstdint>

#include "bantam/core/team.hpp"

namespace bantam::inline v0::nn {

/// What an RMS norm of queries and keys is taken over.
enum class HeadNorm : std::uint8_t {
  each,          ///< head by head (Qwen3)
  all,           ///< all heads of a token at once (OLMoE, OLMo 2)
  each_rotated,  ///< head by head, after rope (Hunyuan)
  own,           ///< head by head, each by weights of its own (Command R+)
};

/// What the outputs of heads are multiplied by before `o` reads them: the sigmoid of products with what q reads.
enum class OutputGate : std::uint8_t {
  none,
  beside_queries,  ///< q has twice the rows: of each head its query, then its gate (Qwen3-Next)
  own,             ///< a matrix of its own, a row for each number of a head's output (AFMoE)
  of_heads,        ///< the same with a row for each head (Step-3.5)
  of_heads_softplus,  ///< with softplus, log(1 + e^x), in the place of the sigmoid (Laguna)
};
/// Whether a gate is of all numbers of a head's output alike.
[[nodiscard]] constexpr bool is_of_heads(OutputGate gate) noexcept { return gate == OutputGate::of_heads || gate == OutputGate::of_heads_softplus; }

/// Which tokens of its sequence a token sees, in a layer without a window and with one of w tokens.
enum class Sight : std::uint8_t {
  back,   ///< itself and those before it; the last w of them
  round,  ///< all, so a sequence is read at once (arXiv:1810.04805); those at most w / 2 away (ModernBERT)
};

/// Brings the next stretch of a layer's keys and values into memory (KvCache::acquire), by its number from 1 on, for whichever sequences of a pass have
/// one; false: none has.
using MoreKeys = FunctionRef<bool(std::int64_t number)>;

/// Which rotations a layer has.
enum class LayerRope : std::uint8_t {
  model,  ///< the model's
  local,  ///< another base in layers with a window (Gemma 3, arXiv:2503.19786)
  none,   ///< positions follow from the causal mask alone (arXiv:2305.19466; SmolLM3, Llama 4)
};

/// Queries times 1 + scale ln(1 + floor((position + offset) / length)): scores keep their spread where there are many (Llama 4,
/// Ministral 3; arXiv:2501.19399).
struct Temperature {
  double scale = 0;  ///< 0: none
  double length = 8192;
  double offset = 0;
  bool unturned = false;  ///< in layers without rope alone (Llama 4)
  /// A query of so many numbers, of a layer.
  void warm(float* query, std::int64_t count, std::int64_t position, LayerRope rope) const noexcept {
    if (scale == 0 || (unturned && rope != LayerRope::none)) return;
    const auto factor = static_cast<float>(1 + scale * std::log(1 + std::floor((static_cast<double>(position) + offset) / length)));
    for (std::int64_t i = 0; i < count; ++i) query[i] *= factor;
  }
  bool operator==(const Temperature&) const = default;
};

/// One layer's part in a pass.
struct MixerLayer {
  std::int64_t place = 0;   ///< of its keys and values, or its recurrent state, in those of a sequence
  std::int64_t window = 0;  ///< tokens seen, or in a chunk; 0: all
  LayerRope rope = LayerRope::model;
};

}  // namespace bantam::inline v0::nn
