// An architecture as data: where its numbers and tensors stand in each container, and which choices it makes.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bantam/nn/ops.hpp"

namespace bantam::inline v0 {

enum class Norm : std::uint8_t { rms, layer };

/// What a weight is for. One entry a tensor that the forward pass reads.
enum class Role : std::uint8_t {
  embedding,
  final_norm,
  head,
  rope_divisors,
  // One a layer from here on.
  attention_norm,
  q,
  k,
  v,
  o,
  q_bias,
  k_bias,
  v_bias,
  o_bias,
  q_norm,
  k_norm,
  ffn_norm,
  gate,
  up,
  down,
};

/// Where a number stands: field of ModelConfig, key of config.json, key of GGUF after the architecture's name.
struct ConfigKey {
  std::string_view field;
  std::string_view hf;
  std::string_view gguf;
};

/// Whether a checkpoint may lack a tensor.
enum class Presence : std::uint8_t { required, optional };

/// Where a tensor stands; {} is the number of the layer.
struct TensorKey {
  Role role;
  std::string_view hf;    ///< empty: not in this container
  std::string_view gguf;
  Presence presence = Presence::required;
};

/// A name of a TensorKey with a layer's number in the place of {}.
[[nodiscard]] inline std::string layer_name(std::string_view pattern, std::int64_t layer) {
  std::string name(pattern);
  if (const auto at = name.find("{}"); at != std::string::npos) name.replace(at, 2, std::to_string(layer));
  return name;
}

/// One architecture. Constant data only: forward() reads it, nothing switches on its name.
struct ArchSpec {
  std::string_view name;      ///< "llama"; also GGUF's general.architecture
  std::string_view hf_class;  ///< "LlamaForCausalLM"
  std::string_view paper;
  Norm norm = Norm::rms;
  /// GGUF files of this architecture order the rows of q and k for adjacent rope pairs; Hugging Face's are halves.
  nn::RopePairs gguf_pairs = nn::RopePairs::half;
  double default_norm_eps = 1e-6;
  double default_rope_base = 10000;
  bool default_tied = false;  ///< when config.json does not say
  std::span<const ConfigKey> config;
  std::span<const TensorKey> tensors;
  std::span<const TensorKey> more_tensors;  ///< what it has beyond a family's common ones

  /// Where a role's tensor stands; null where the architecture has none.
  [[nodiscard]] constexpr const TensorKey* find(Role role) const noexcept {
    for (const auto& list : {tensors, more_tensors}) {
      for (const TensorKey& key : list) {
        if (key.role == role) return &key;
      }
    }
    return nullptr;
  }
};

}  // namespace bantam::inline v0
