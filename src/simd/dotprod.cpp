// The kernel table of dotprod.
#include "bantam/simd/neon.hpp"

#include "bantam/kernels/make_table.hpp"

namespace bantam::inline v0::kernels {

template <>
const KernelTable& table<simd::dotprod>() noexcept {
  static constexpr KernelTable kernels = make_table<simd::dotprod>(Formats{});
  return kernels;
}

}  // namespace bantam::inline v0::kernels
