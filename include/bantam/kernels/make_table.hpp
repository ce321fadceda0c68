// Fills the kernel table of one instruction set. Included by the translation units of src/simd/ only.
#pragma once

#include "bantam/kernels/attention.hpp"
#include "bantam/kernels/matmul.hpp"
#include "bantam/kernels/recurrence.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/simd/nearest_point.hpp"
#include "bantam/simd/paths.hpp"

namespace bantam::inline v0 {

namespace kernels {

template <class A, class Kv>
constexpr KvKernels make_kv() {
  return {Kv::name, Kv::saved_as, Kv::has_levels, [](std::int64_t d) noexcept { return kv_page_bytes<Kv>(d); }, store_kv<A, Kv>, expand_kv<A, Kv>, attend<A, Kv>};
}
template <class A, class... Kv>
constexpr std::array<KvKernels, sizeof...(Kv)> make_kinds(KvList<Kv...>) {
  return {make_kv<A, Kv>()...};
}

template <class A, QuantFormat F>
constexpr FormatKernels make_format() {
  FormatKernels k{nullptr, matmul_f32<A, F>, detail::reads_interleaved<A, F>};
  if constexpr (!is_float_format<F>) k.matmul_q8 = matmul_q8<A, F>;
  return k;
}

/// A tile of int8 products on data that stays in the first-level cache: what the arithmetic itself allows.
template <class A>
std::int64_t int8_rate(std::int64_t rounds) noexcept {
  constexpr int NR = simd::dot<A>::strips;
  constexpr int MR = simd::dot<A>::tokens;
  constexpr int k = 128;
  alignas(64) static const std::uint8_t codes[NR * k * 16 / 2] = {};
  alignas(64) static const std::int8_t x[MR * k] = {};
  simd::IntStrip<A> c[NR][MR];
  for (int r = 0; r < NR; ++r) {
    for (int m = 0; m < MR; ++m) c[r][m] = splat_int_strip<A>(0);
  }
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (int column = 0; column < k; column += 32) {
      simd::dot<A>::template accumulate<simd::Codes<4>, 32, NR, MR>(codes + column * 8, k * 16 / 2, x + column, k, 0, nullptr, c);
    }
    __asm__ volatile("" ::: "memory");
  }
  for (int r = 0; r < NR; ++r) {
    for (int m = 0; m < MR; ++m) {
      for (int i = 0; i < simd::IntStrip<A>::parts; ++i) {
        typename vec<A>::I kept = c[r][m].part[i];
        __asm__ volatile("" : : "m"(kept));
      }
    }
  }
  return rounds * 2 * k * 16 * NR * MR;
}

template <class A, QuantFormat... F>
constexpr KernelTable make_table(FormatList<F...>) {
  return {
      .name = A::name,
      .formats = {make_format<A, F>()...},
      .kv = make_kinds<A>(KvKinds{}),
      .rotate_blocks = rotate_blocks<A>,
      .quantize_row = quantize_row<A>,
      .rms_norm = rms_norm<A>,
      .layer_norm = layer_norm<A>,
      .add = add<A>,
      .silu_mul = silu_mul<A>,
      .gelu_tanh_mul = gelu_tanh_mul<A>,
      .gelu_erf_mul = gelu_erf_mul<A>,
      .clamped_silu_mul = clamped_silu_mul<A>,
      .relu_mul = relu_mul<A>,
      .relu2_mul = relu2_mul<A>,
      .sigmoid_mul = sigmoid_mul<A>,
      .softcap = softcap<A>,
      .xielu = xielu<A>,
      .rope_half = rope_half<A>,
      .rope_pairs = rope_pairs<A>,
      .sum_rows = sum_rows<A>,
      .decay_row = decay_row<A>,
      .convolve = convolve<A>,
      .nearest_point = simd::nearest_point<A>,
      .paths = simd::path_kernels<A>,
      .attend_merge = attend_merge<A>,
      .attend_finish = attend_finish<A>,
      .index_scores = index_scores<A>,
      .int8_rate = int8_rate<A>,
  };
}

}  // namespace kernels
}  // namespace bantam::inline v0
