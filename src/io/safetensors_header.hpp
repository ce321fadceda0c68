// The JSON header of a safetensors file, checked.
#pragma once

#include <string>
#include <vector>

#include "bantam/core/hash.hpp"
#include "bantam/io/tensor_source.hpp"

namespace bantam::inline v0::detail {

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  ///< in file order, padding included
  HashMap<std::string, std::string> metadata;
};

/// Takes a whole file apart. Throws as SafetensorsFile::open does.
[[nodiscard]] SafetensorsHeader parse_safetensors(const std::shared_ptr<const MappedFile>& file);

}  // namespace bantam::inline v0::detail
