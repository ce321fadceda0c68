// The kernel table of avx2.
#include "bantam/simd/avx2.hpp"

#include "bantam/kernels/make_table.hpp"

namespace bantam::inline v0::kernels {

template <>
const KernelTable& table<simd::avx2>() noexcept {
  static constexpr KernelTable kernels = make_table<simd::avx2>(Formats{});
  return kernels;
}

}  // namespace bantam::inline v0::kernels
