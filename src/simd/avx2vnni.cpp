// The kernel table of avx2vnni.
#include "bantam/simd/avx2vnni.hpp"

#include "bantam/kernels/make_table.hpp"

namespace bantam::inline v0::kernels {

template <>
const KernelTable& table<simd::avx2vnni>() noexcept {
  static constexpr KernelTable kernels = make_table<simd::avx2vnni>(Formats{});
  return kernels;
}

}  // namespace bantam::inline v0::kernels
