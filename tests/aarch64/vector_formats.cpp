// The formats of GGUF files alone are made above the layers that are built here: there are none.
#include "bantam/quant/format_info.hpp"

namespace bantam::inline v0 {

std::span<const FormatInfo> vector_formats() noexcept { return {}; }

}  // namespace bantam::inline v0
