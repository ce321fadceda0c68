// Words of config.json that reading and writing share.
#pragma once

#include <string_view>
#include <utility>

#include "bantam/model/config.hpp"

namespace bantam::inline v0 {

/// hidden_act by its names; the first of each activation is written.
inline constexpr std::pair<std::string_view, ops::Gate> activations[] = {
    {"silu", ops::Gate::silu}, {"swish", ops::Gate::silu}, {"gelu", ops::Gate::gelu_erf}, {"gelu_pytorch_tanh", ops::Gate::gelu_tanh},
    {"gelu_new", ops::Gate::gelu_tanh}, {"gelu_fast", ops::Gate::gelu_tanh}, {"relu", ops::Gate::relu}, {"relu2", ops::Gate::relu2}};

/// What layer_types calls layers with a window.
[[nodiscard]] inline std::string_view window_type(const ArchSpec& arch) noexcept { return arch.chunks_windows ? "chunked_attention" : "sliding_attention"; }

/// What a list of numbers of each layer is called, which our files alone have: ours where the architecture's folders have no such number.
[[nodiscard]] inline std::string_view list_key(const ArchSpec& arch, Field field) {
  const ConfigKey* key = arch.find(field);
  if (key != nullptr && !key->hf.empty()) return key->hf;
  return field == Field::heads ? "heads_by_layer" : field == Field::kv_heads ? "kv_heads_by_layer" : "ffn_by_layer";
}

}  // namespace bantam::inline v0
