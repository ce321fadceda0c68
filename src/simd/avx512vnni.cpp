// The kernel table of avx512vnni.
#include "bantam/simd/avx512vnni.hpp"

#include "bantam/kernels/make_table.hpp"

namespace bantam::inline v0::kernels {

template <>
const KernelTable& table<simd::avx512vnni>() noexcept {
  static constexpr KernelTable kernels = make_table<simd::avx512vnni>(Formats{});
  return kernels;
}

}  // namespace bantam::inline v0::kernels
