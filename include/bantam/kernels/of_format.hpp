// The kernels of a weight matrix: of the table in use, or its format's own.
#pragma once

#include "bantam/kernels/table.hpp"
#include "bantam/quant/format_info.hpp"

namespace bantam::inline v0 {

[[nodiscard]] inline const FormatKernels& kernels_of(const FormatInfo& format, const KernelTable& table) noexcept {
  return format.own_kernels != nullptr ? *format.own_kernels : *entry_for(std::span<const FormatKernels>(table.formats), format);
}

}  // namespace bantam::inline v0
