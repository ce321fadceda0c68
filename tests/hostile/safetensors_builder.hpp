// Builds safetensors files in memory, well-formed or broken on purpose.
#pragma once

#include <string>
#include <string_view>

#include "hostile/gguf_builder.hpp"

namespace bantam::test {

/// Header length, header, data, unchecked.
inline std::string safetensors(std::string_view header, std::string_view data = {}) {
  return little<std::uint64_t>(header.size()).append(header).append(data);
}

/// A valid file of a few hundred bytes; each of its prefixes is broken.
inline std::string small_safetensors() {
  return safetensors(
      R"({"__metadata__":{"format":"pt","note":"\u00e9 \"quoted\""},)"
      R"("b":{"dtype":"F16","shape":[3],"data_offsets":[24,30]},)"
      R"("a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("scalar":{"dtype":"I8","shape":[],"data_offsets":[30,31]},)"
      R"("none":{"data_offsets":[31,31],"shape":[0,7],"dtype":"BF16"},)"
      R"("last":{"dtype":"U8","shape":[4],"data_offsets":[31,35]}}   )",
      float_bytes(6) + std::string(11, '\x5a'));
}

}  // namespace bantam::test
