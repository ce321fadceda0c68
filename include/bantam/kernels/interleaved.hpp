// Products of strips that hold blocks of their own, for many tokens: lanes are tokens, not channels.
//
// Such strips share no activations. Where lanes are channels, each product needs a broadcast of its own, raised to unsigned bytes:
// loads and additions are the limit then, and not products. Here a register holds four columns of 16 tokens
// (QuantizedRows::interleaved), a broadcast holds one channel's four codes and meets several of those, and one number a channel takes
// off what was raised. The sums are those of kernels/matmul.hpp, in the same order.
#pragma once

#include "bantam/kernels/arguments.hpp"
#include "bantam/kernels/strips.hpp"

namespace bantam::inline v0::kernels::detail {

/// Where an instruction set multiplies interleaved activations (simd/dot.hpp) by a format.
template <class A, QuantFormat F>
inline constexpr bool reads_interleaved = Strip16<F>::half_of_blocks && requires { simd::dot<A>::interleaved_registers; };

/// One strip of one group, as interleaved activations meet it.
struct ExpandedGroup {
  alignas(64) std::int8_t codes[simd::kept_blocks][strip_rows][4];
  std::int32_t start[strip_rows];  ///< what raised activations make too much, negative
  float scales[strip_rows];
  std::uint32_t kept;
};

/// out = x wT of one strip and 16 NX tokens, the first a multiple of 16.
template <class A, QuantFormat F, int NX>
__attribute__((noinline)) void strip_interleaved(const WeightView& w, std::int64_t p, int strip, const QuantizedRows& x, std::int64_t token,
                                                 Fetch fetch, const OutputRows& out) noexcept {
  using L = Strip16<F>;
  constexpr int rows = NX == 1 ? 8 : 4;  // whose sums, of integers and of floats, fit the registers
  ExpandedGroup groups[block_columns / L::group];
  alignas(64) float sums[strip_rows][NX * 16];
  // Not by an initializer: that is a call of memset.
  BANTAM_UNROLL for (int r = 0; r < strip_rows; ++r) {
    BANTAM_UNROLL for (int n = 0; n < NX; ++n) store_strip<A>(sums[r] + n * 16, splat_strip<A>(0.0f));
  }
  const std::int64_t first_row = p * panel_rows + strip * strip_rows;
  float* const to = out.values + token * out.stride + first_row;
  // Lines that will be written: without them at hand, the stores at the end hold up the next strip's.
  for (int m = 0; m < NX * 16; ++m) __builtin_prefetch(to + m * out.stride, 1);
  const std::uint8_t* values = x.interleaved + token * x.stride;
  const float* d = x.scales + token;

  const std::int64_t padded = L::padded_columns(w.columns);
  const std::byte* panel = w.data + p * L::panel_bytes(w.columns);
  const std::byte* block = panel + L::header;
  for (std::int64_t first = 0; first < padded; first += block_columns) {
    const int k = padded - first < block_columns ? static_cast<int>(padded - first) : block_columns;
    const auto* plane = reinterpret_cast<const std::uint8_t*>(block + L::plane_at(k, strip));
    for (int g = 0; g < L::groups(k); ++g) {
      const int column = g * L::group;
      for (int i = 0; fetch != Fetch::nowhere && i < L::group; i += 32) prefetch_ahead<L, 1>(block, strip, column + i, fetch);
      simd::dot<A>::expand_blocks(plane + L::plane_bytes(column), groups[g].codes[0][0], groups[g].start);
      store_strip<A>(groups[g].scales, load_scales<A, F>(panel, block, k, strip, g));
      groups[g].kept = load_kept_blocks<A, F>(block, k, strip, g);
    }
    for (int row = 0; row < strip_rows; row += rows) {
      Strip<A> f[rows][NX];
      BANTAM_UNROLL for (int r = 0; r < rows; ++r) {
        BANTAM_UNROLL for (int n = 0; n < NX; ++n) f[r][n] = splat_strip<A>(0.0f);
      }
      // The compiler must not see that there are two at most: it would make two loops of it, and spill in one.
      const ExpandedGroup* group = groups;
      __asm__("" : "+r"(group));
      const std::uint8_t* of_group = values;
#pragma GCC unroll 1
      for (const ExpandedGroup* const end = group + L::groups(k); group != end; ++group, of_group += L::group * 16) {
        IntStrip<A> c[rows][NX];
        simd::dot<A>::multiply_interleaved(of_group, x.stride * 16, group->kept, group->codes[0][row], group->start + row, c);
        BANTAM_UNROLL for (int r = 0; r < rows; ++r) {
          const Strip<A> s = splat_strip<A>(group->scales[row + r]);
          BANTAM_UNROLL for (int n = 0; n < NX; ++n) f[r][n] = fma_strip<A>(float_strip<A>(c[r][n]), s, f[r][n]);
        }
      }
      BANTAM_UNROLL for (int r = 0; r < rows; ++r) {
        BANTAM_UNROLL for (int n = 0; n < NX; ++n) {
          float* sum = sums[row + r] + n * 16;
          store_strip<A>(sum, fma_strip<A>(f[r][n], load_strip<A>(d + n * 16), load_strip<A>(sum)));
        }
      }
    }
    values += block_columns * 16;
    d += x.width;
    block += L::block_bytes(k);
  }

  BANTAM_UNROLL for (int n = 0; n < NX; ++n) {
    float* sixteen = to + n * 16 * out.stride;
    if (w.rows - first_row >= strip_rows) {
      simd::dot<A>::transpose(sums[0] + n * 16, NX * 16, sixteen, out.stride);
    } else {
      for (int m = 0; m < 16; ++m) {
        for (int r = 0; first_row + r < w.rows; ++r) sixteen[m * out.stride + r] = sums[r][n * 16 + m];
      }
    }
  }
}

}  // namespace bantam::inline v0::kernels::detail
