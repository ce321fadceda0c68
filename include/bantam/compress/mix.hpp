// Mixes: formats by role and layer, under the names that llama.cpp gives to files that are made so.
#pragma once

#include <span>
#include <string_view>

#include "bantam/model/config.hpp"
#include "bantam/quant/format_info.hpp"

namespace bantam::inline v0 {

/// A name of llama-quantize, and what most matrices of its files are. The rest follows from rules of role and layer.
struct Mix {
  std::string_view name;    ///< "Q4_K_M"
  std::string_view format;  ///< "q4k.g32"
};

/// Those of llama-quantize whose types this library writes: as it makes them without an importance matrix, or with one where it makes
/// none without.
[[nodiscard]] std::span<const Mix> mixes() noexcept;
/// By name, case ignored; null when there is none. Names of single formats that GGUF files have mean mixes, too, where
/// llama-quantize makes one of them: Q2_K, Q4_0, ...
[[nodiscard]] const Mix* find_mix(std::string_view name) noexcept;
/// What llama-quantize makes of one matrix. `layer`: -1 for embedding and head.
[[nodiscard]] const FormatInfo& format_in(const Mix& mix, Role role, std::int64_t layer, const ModelConfig& config);

}  // namespace bantam::inline v0
