// Numbers of layers that GGUF files have in lists of metadata, where folders have tensors (Apertus).
#pragma once

#include <string_view>

#include "bantam/io/gguf.hpp"
#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0 {

/// The key of such a list.
[[nodiscard]] constexpr std::string_view list_of(const TensorKey& key) noexcept { return key.gguf.substr(0, key.gguf.rfind(".{}")); }
/// The number of a layer: an entry of a list of as many as there are layers, or one number for all. Throws corrupt.
[[nodiscard]] float listed_number(const GgufFile& file, const TensorKey& key, std::int64_t layer, std::int64_t layers);

}  // namespace bantam::inline v0
