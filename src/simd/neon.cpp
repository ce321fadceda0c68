// The kernel table of neon.
#include "bantam/simd/neon.hpp"

#include "bantam/kernels/make_table.hpp"

namespace bantam::inline v0::kernels {

template <>
const KernelTable& table<simd::neon>() noexcept {
  static constexpr KernelTable kernels = make_table<simd::neon>(Formats{});
  return kernels;
}

}  // namespace bantam::inline v0::kernels
