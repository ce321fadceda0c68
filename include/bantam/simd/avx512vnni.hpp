// The primitives on AVX-512 with VNNI.
#pragma once

#include "bantam/simd/x86_dot.hpp"
#include "bantam/simd/zmm.hpp"

namespace bantam::inline v0::simd {

/// 2 x 6 int32 and 2 x 6 float accumulators, 4 registers of codes and a broadcast fill the 32 registers.
template <>
struct dot<avx512vnni> : vnni_dot<avx512vnni, Zmm, 2, 6> {
  /// 4 channels by 3 registers of 16 tokens: 12 sums of integers, 12 of floats, 3 of activations and a broadcast.
  static constexpr int interleaved_registers = 3;

  static BANTAM_INLINE void expand_blocks(const std::uint8_t* line, std::int8_t* codes, std::int32_t* start) {
    __m512i sum = Zmm::zero(), raise = Zmm::zero();
    BANTAM_UNROLL for (int i = 0; i < kept_blocks; i += 2, line += 64, codes += 128) {
      __m512i w0, w1;
      simd::x86_codes<Zmm>::signed_blocks(line, w0, w1);
      sum = Zmm::add8(sum, Zmm::add8(w0, w1));
      _mm512_store_si512(codes, w0);
      _mm512_store_si512(codes + 64, w1);
    }
    Zmm::dp(raise, Zmm::bytes(128), sum);
    _mm512_storeu_si512(start, Zmm::sub32(Zmm::zero(), raise));
  }

  template <int Rows, int NX>
  static BANTAM_INLINE void multiply_interleaved(const std::uint8_t* x, std::ptrdiff_t x_stride, std::uint32_t kept, const std::int8_t* codes,
                                                 const std::int32_t* start, IntStrip<avx512vnni> (&c)[Rows][NX]) {
    __m512i sum[Rows][NX];
    BANTAM_UNROLL for (int r = 0; r < Rows; ++r) {
      BANTAM_UNROLL for (int n = 0; n < NX; ++n) sum[r][n] = _mm512_set1_epi32(start[r]);
    }
#pragma GCC unroll 4
    for (const std::int8_t* const end = codes + kept_blocks * 64; codes != end; codes += 64) {
      const std::uint8_t* four = x + next_block(kept) * 64;
      __m512i values[NX];
      BANTAM_UNROLL for (int n = 0; n < NX; ++n) values[n] = Zmm::load(four + n * x_stride);
      BANTAM_UNROLL for (int r = 0; r < Rows; ++r) {
        const __m512i w = Zmm::broadcast(codes + r * 4);
        BANTAM_UNROLL for (int n = 0; n < NX; ++n) Zmm::dp(sum[r][n], values[n], w);
      }
    }
    BANTAM_UNROLL for (int r = 0; r < Rows; ++r) {
      BANTAM_UNROLL for (int n = 0; n < NX; ++n) c[r][n].part[0] = sum[r][n];
    }
  }

  /// Sixteen rows of 16 floats, `stride` apart, into columns.
  static BANTAM_INLINE void transpose(const float* rows, std::ptrdiff_t stride, float* columns, std::ptrdiff_t column_stride) {
    __m512 row[16];
    BANTAM_UNROLL for (int i = 0; i < 16; ++i) row[i] = _mm512_loadu_ps(rows + i * stride);
    // One bit of the row's number changes places with that of the lane.
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    BANTAM_UNROLL for (int bit = 1; bit < 16; bit *= 2) {
      const __mmask16 set = _mm512_test_epi32_mask(lane, _mm512_set1_epi32(bit));
      const __m512i low = _mm512_mask_add_epi32(lane, set, lane, _mm512_set1_epi32(16 - bit));
      const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(bit));
      BANTAM_UNROLL for (int i = 0; i < 16; ++i) {
        if ((i & bit) != 0) continue;
        const __m512 a = row[i], b = row[i + bit];
        row[i] = _mm512_permutex2var_ps(a, low, b);
        row[i + bit] = _mm512_permutex2var_ps(a, high, b);
      }
    }
    BANTAM_UNROLL for (int i = 0; i < 16; ++i) _mm512_storeu_ps(columns + i * column_stride, row[i]);
  }
};
template <>
struct half_strip<avx512vnni> : zmm_half<avx512vnni> {};
template <>
struct byte_strip<avx512vnni> : zmm_bytes<avx512vnni> {};
template <int Bits>
struct level_strip<avx512vnni, Bits> : zmm_levels<avx512vnni, Bits> {};

}  // namespace bantam::inline v0::simd
