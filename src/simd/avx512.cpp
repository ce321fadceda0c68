// The kernel table of avx512.
#include "bantam/simd/avx512.hpp"

#include "bantam/kernels/make_table.hpp"

namespace bantam::inline v0::kernels {

template <>
const KernelTable& table<simd::avx512>() noexcept {
  static constexpr KernelTable kernels = make_table<simd::avx512>(Formats{});
  return kernels;
}

}  // namespace bantam::inline v0::kernels
