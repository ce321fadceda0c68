// The one kernel table that programs have without the library: plain C++, its products with each format compiled where that is used.
#pragma once

#include "bantam/core/error.hpp"
#include "bantam/kernels/own_format.hpp"

namespace bantam::inline v0 {

namespace kernels {

/// Without products: formats bring their own (kernels_of).
template <>
inline const KernelTable& table<simd::generic>() noexcept {
  static constexpr KernelTable kernels = make_table<simd::generic>(FormatList<>{});
  return kernels;
}

}  // namespace kernels

inline std::span<const KernelTable* const> kernel_tables() {
  static const KernelTable* const tables[] = {&kernels::table<simd::generic>()};
  return tables;
}

inline const KernelTable& kernels_in_use() { return kernels::table<simd::generic>(); }

inline void use_kernels(std::string_view name) {
  const KernelTable& only = kernels_in_use();
  if (name != only.name) fail(Errc::invalid_argument, "instruction set: expected ", only.name, ", all that there is without the library, found ", printable(name));
}

}  // namespace bantam::inline v0
