// The kernel table of amx: that of avx512vnni, with other products of many tokens.
#include "bantam/simd/amx.hpp"

#include "bantam/kernels/table.hpp"
#include "bantam/kernels/tiled.hpp"
#include "bantam/simd/avx512vnni.hpp"

namespace bantam::inline v0::kernels {

namespace {

template <QuantFormat... F>
void use_tiles(KernelTable& kernels, FormatList<F...>) {
  const auto use = [&]<class Format>(std::type_identity<Format>) {
    if constexpr (!is_float_format<Format>) {
      FormatKernels& of_format = kernels.formats[static_cast<std::size_t>(format_index<Format>())];
      of_format.matmul_q8 = matmul_tiled<simd::avx512vnni, simd::amx, Format>;
      of_format.reads_interleaved = false;
    }
  };
  (use(std::type_identity<F>{}), ...);
}

}  // namespace

template <>
const KernelTable& table<simd::amx>() noexcept {
  static const KernelTable kernels = [] {
    KernelTable made = table<simd::avx512vnni>();
    made.name = simd::amx::name;
    made.int8_rate = int8_rate_of_tiles<simd::amx>;
    use_tiles(made, Formats{});
    return made;
  }();
  return kernels;
}

}  // namespace bantam::inline v0::kernels
