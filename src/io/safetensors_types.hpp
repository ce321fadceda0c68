// The element types of safetensors files that whole bytes can address.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace bantam::inline v0::detail {

struct SafetensorsType {
  std::string_view name;
  std::int64_t bytes;
};

inline constexpr std::array safetensors_types = {
    SafetensorsType{"F64", 8},     SafetensorsType{"F32", 4},     SafetensorsType{"F16", 2}, SafetensorsType{"BF16", 2},
    SafetensorsType{"I64", 8},     SafetensorsType{"I32", 4},     SafetensorsType{"I16", 2}, SafetensorsType{"I8", 1},
    SafetensorsType{"U64", 8},     SafetensorsType{"U32", 4},     SafetensorsType{"U16", 2}, SafetensorsType{"U8", 1},
    SafetensorsType{"F8_E4M3", 1}, SafetensorsType{"F8_E5M2", 1}, SafetensorsType{"BOOL", 1},
};

/// Null for a name that has no type here.
[[nodiscard]] constexpr const SafetensorsType* find_safetensors_type(std::string_view name) noexcept {
  for (const SafetensorsType& type : safetensors_types) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

/// The largest header that the format allows.
inline constexpr std::uint64_t safetensors_header_limit = 100'000'000;
/// NumPy, from which most files come, stops at 64 dimensions.
inline constexpr std::size_t safetensors_rank_limit = 64;
/// Where the metadata stands among the tensors.
inline constexpr std::string_view safetensors_metadata_key = "__metadata__";

/// Whether this is one of the named U8 tensors that only fill gaps ("__pad_12").
[[nodiscard]] constexpr bool is_padding_name(std::string_view name) noexcept {
  constexpr std::string_view prefix = "__pad_";
  return name.size() > prefix.size() && name.starts_with(prefix) &&
         name.find_first_not_of("0123456789", prefix.size()) == name.npos;
}

}  // namespace bantam::inline v0::detail
