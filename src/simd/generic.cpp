// The kernel table of generic.
#include "bantam/simd/generic.hpp"

#include "bantam/kernels/make_table.hpp"

namespace bantam::inline v0::kernels {

template <>
const KernelTable& table<simd::generic>() noexcept {
  static constexpr KernelTable kernels = make_table<simd::generic>(Formats{});
  return kernels;
}

}  // namespace bantam::inline v0::kernels
