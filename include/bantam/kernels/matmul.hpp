// Matrix products x wT of every format: float activations, and activations rounded to 8 bits.
//
// Both kernels fix the order of every sum: products of a group first (exact integers, or floats in column order), then
// groups in order, then blocks in order; lanes are output channels and never meet. So results depend neither on the
// instruction set nor on threads, batch or chunking, bit for bit.
#pragma once

#include <bit>
#include <utility>

#include "bantam/kernels/interleaved.hpp"

namespace bantam::inline v0::kernels {

namespace detail {

using bantam::detail::for_each_block;

template <QuantFormat F>
struct PlaneOf {
  using type = std::conditional_t<has_levels<F>, simd::Codebook, simd::Codes<code_bits<typename F::Plane>>>;
};
template <QuantFormat F>
  requires std::is_same_v<typename F::Plane, plane::I8>
struct PlaneOf<F> {
  using type = simd::Bytes;
};
template <QuantFormat F>
  requires(Strip16<F>::two_of_four)
struct PlaneOf<F> {
  using type = simd::TwoOfFour<Strip16<F>::bits == 4 ? 4 : 8>;
};
template <QuantFormat F>
  requires(Strip16<F>::trellis)
struct PlaneOf<F> {
  using type = simd::Trellis<step_bits<typename F::Plane>>;
};
template <QuantFormat F>
using dot_plane = typename PlaneOf<F>::type;

/// What integer products count codes more by than they mean.
template <class A, QuantFormat F>
[[nodiscard]] constexpr int dot_bias() {
  if (Strip16<F>::half_of_blocks || Strip16<F>::two_of_four) return 0;  // the primitives see to it
  if (std::is_same_v<dot_plane<F>, simd::Bytes>) return simd::dot<A>::byte_bias;
  return std::is_same_v<dot_plane<F>, simd::Codebook> || Strip16<F>::trellis ? simd::dot<A>::codebook_bias : code_offset<F>;
}

/// The levels of a codebook in its unit, for integer products.
template <QuantFormat F>
struct CodebookBytes {
  alignas(16) std::int8_t level[16] = {};
  constexpr CodebookBytes() {
    if constexpr (has_levels<F>) {
      for (std::size_t i = 0; i < 16; ++i) {
        const float x = F::levels[i] / level_unit<F>;
        level[i] = static_cast<std::int8_t>(x < 0 ? x - 0.5f : x + 0.5f);
      }
    }
  }
};

/// NR strips by MR tokens of one panel against 8-bit activations; out is (MR, NR, 16).
template <class A, QuantFormat F, int NR, int MR>
__attribute__((noinline)) void tile_q8(const std::byte* panel, int first_strip, std::int64_t columns,
                                       const QuantizedRows& x, std::int64_t token, Fetch fetch, float* out) noexcept {
  using L = Strip16<F>;
  using V = vec<A>;
  static constexpr CodebookBytes<F> codebook{};
  constexpr int bias = dot_bias<A, F>();
  static_assert(bias == 0 || std::has_single_bit(unsigned{bias}));
  constexpr bool starts = bias != 0 || L::zero_points;  // products are summed from something else than zero
  // The products of a long group wait for each other: their first must not wait for the sums as well. For a short one, adding them costs more.
  constexpr bool late = L::group > 32;
  const std::int64_t padded = L::padded_columns(columns);
  const std::int8_t* values = x.values + token * x.stride;
  constexpr bool fine = L::activation_block == 32;
  const float* x_scales = x.scales + token;
  [[maybe_unused]] const std::int32_t* sums = x.sums + token;
  BANTAM_UNROLL for (int i = 0; i < NR * MR; ++i) store_strip<A>(out + i * strip_rows, splat_strip<A>(0.0f));

  const std::byte* block = panel + L::header;
  for (std::int64_t first = 0; first < padded; first += block_columns) {
    const int k = padded - first < block_columns ? static_cast<int>(padded - first) : block_columns;
    const int group = F::group == 0 ? k : L::group;
    const auto* planes = reinterpret_cast<const std::uint8_t*>(block + L::plane_at(k, first_strip));
    Strip<A> f[NR][MR];
    BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) f[r][m] = splat_strip<A>(0.0f);
    }
#pragma GCC unroll 1
    for (int g = 0; g * group < k; ++g) {
      const std::int64_t column = first + g * group;
      IntStrip<A> c[NR][MR];
      // The tokens' sums are found together, whole vectors of them, and come back one by one into all lanes.
      [[maybe_unused]] alignas(64) std::int32_t start[round_up(MR, V::lanes)];
      [[maybe_unused]] alignas(64) float x_sums[round_up(MR, V::lanes)];
      if constexpr (starts || L::minimums) {
        BANTAM_UNROLL for (int m = 0; m < MR; m += V::lanes) {
          // One by one they would come in vectors that cross lines of the cache.
          const auto load = [](const std::int32_t* p) __attribute__((always_inline)) { return MR == 1 ? V::splat_int(*p) : V::load_int(p); };
          auto sum = load(sums + m);
          for (int i = 1; i < group / sum_columns; ++i) sum = sum + load(sums + i * x.width + m);
          if constexpr (starts) V::store_int(start + m, L::zero_points ? sum : V::shift_left(sum, std::countr_zero(unsigned{bias})));
          if constexpr (L::minimums) {
            const auto positive = V::to_float(V::splat_int(0) - sum);
            V::store(x_sums + m, fine ? positive * V::load(x_scales + m) : positive);
          }
        }
        // What is needed after the products waits in memory: in registers it would push others out.
        if constexpr (starts && late) __asm__("" : "+m"(start));
        if constexpr (L::minimums) __asm__("" : "+m"(x_sums));
      }
      BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
        [[maybe_unused]] IntStrip<A> zeros;
        if constexpr (L::zero_points) zeros = load_zeros<A, F>(block, k, first_strip + r, g);
        BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
          BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) {
            c[r][m].part[i] = V::splat_int(starts && !late ? start[m] : 0);
            if constexpr (L::zero_points && !late) c[r][m].part[i] = zeros.part[i] * c[r][m].part[i];
          }
        }
      }
      if constexpr (L::half_of_blocks) {
        BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
          for (int i = r * group / NR; fetch != Fetch::nowhere && i < (r + 1) * group / NR; i += 32) prefetch_ahead<L, NR>(block, first_strip, g * group + i, fetch);
          simd::dot<A>::accumulate_blocks(planes + r * L::plane_bytes(k) + L::plane_bytes(g * group), values + column, x.stride,
                                          load_kept_blocks<A, F>(block, k, first_strip + r, g), c[r]);
        }
      } else {
        constexpr int step = L::trellis ? L::Plane::column_unit : L::group < 32 ? L::group : 32;
        static_assert(step <= 64 && (!L::trellis || L::group % step == 0));
#pragma GCC unroll 1
        for (int i = 0; i < group; i += step) {
          const int at = g * group + i;
          if (fetch != Fetch::nowhere && at % 32 == 0) {
            prefetch_ahead<L, NR>(block, first_strip, at, fetch);
            if constexpr (step > 32) prefetch_ahead<L, NR>(block, first_strip, at + 32, fetch);
          }
          simd::dot<A>::template accumulate<dot_plane<F>, step, NR, MR>(planes + L::plane_bytes(at / 32 * 32), L::plane_bytes(k),
                                                                        values + first + at, x.stride, L::trellis ? at : at % 32 / 4, codebook.level, c);
        }
      }
      BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
        Strip<A> s = load_scales<A, F>(panel, block, k, first_strip + r, g);
        if constexpr (has_levels<F> && level_unit<F> != 1.0f) {
          BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) s.part[i] = s.part[i] * V::splat(level_unit<F>);
        }
        [[maybe_unused]] IntStrip<A> zeros;
        if constexpr (L::zero_points) zeros = load_zeros<A, F>(block, k, first_strip + r, g);
        BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
          if constexpr (starts && late) {
            const auto sum = V::splat_int(start[m]);
            BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) {
              if constexpr (L::zero_points) c[r][m].part[i] = c[r][m].part[i] + zeros.part[i] * sum;
              else c[r][m].part[i] = c[r][m].part[i] + sum;
            }
          }
          const Strip<A> products = float_strip<A>(c[r][m]);
          if constexpr (fine) {
            const Strip<A> d = splat_strip<A>(x_scales[m]);
            f[r][m] = fma_strip<A>(mul_strip<A>(products, s), d, f[r][m]);
          } else {
            f[r][m] = fma_strip<A>(products, s, f[r][m]);
          }
        }
        if constexpr (L::minimums) {
          const Strip<A> minimum = load_minimums<A, F>(block, k, first_strip + r, g);
          BANTAM_UNROLL for (int m = 0; m < MR; ++m) f[r][m] = fma_strip<A>(minimum, splat_strip<A>(x_sums[m]), f[r][m]);
        }
      }
      sums += group / sum_columns * x.width;
      if constexpr (fine) x_scales += x.width;
    }
    // Without this the compiler keeps `out` in registers across blocks and spills the accumulators instead.
    __asm__ volatile("" : "+r"(out));
    BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
      // Fine scales are in f already.
      const Strip<A> d = splat_strip<A>(fine ? 1.0f : x_scales[m]);
      BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
        float* o = out + (m * NR + r) * strip_rows;
        store_strip<A>(o, fma_strip<A>(f[r][m], d, load_strip<A>(o)));
      }
    }
    if constexpr (!fine) x_scales += x.width;
    block += L::block_bytes(k);
  }
  if constexpr (L::row_scales) {
    BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
      const Strip<A> s = load_strip<A>(reinterpret_cast<const float*>(panel) + (first_strip + r) * strip_rows);
      for (int m = 0; m < MR; ++m) {
        float* o = out + (m * NR + r) * strip_rows;
        const Strip<A> v = load_strip<A>(o);
        Strip<A> product;
        BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) product.part[i] = v.part[i] * s.part[i];
        store_strip<A>(o, product);
      }
    }
  }
}

/// NR strips by MR tokens against float activations; out is (MR, NR, 16). Strips are those of the panel, and of the panels behind it.
template <class A, QuantFormat F, int NR, int MR>
__attribute__((noinline)) void tile_f32(const std::byte* panel, int first_strip, std::int64_t columns, const FloatRows& x,
                                        std::int64_t token, [[maybe_unused]] Fetch fetch, float* out) noexcept {
  using L = Strip16<F>;
  using V = vec<A>;
  // What is in flight without a fetch is what the processor's window of instructions holds, and with 16 bits that is half as many lines as with 32:
  // half of memory's rate on Zen 5, where those of 32 read a tenth to a quarter less with fetches. Quantized formats are here on the exact path, which no one waits for.
  [[maybe_unused]] constexpr bool fetches = is_float_format<F> && !std::is_same_v<typename F::Plane, plane::F32>;
  const float* values = x.values + token * x.stride;
  Strip<A> total[NR][MR];
  BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
    BANTAM_UNROLL for (int m = 0; m < MR; ++m) total[r][m] = splat_strip<A>(0.0f);
  }
  static_assert(NR <= 2 || is_float_format<F>);
  const std::int64_t padded = L::padded_columns(columns);
  [[maybe_unused]] const std::int64_t panel_bytes = L::panel_bytes(columns);
  const std::byte* block = panel + L::header;
  for (std::int64_t first = 0; first < padded; first += block_columns) {
    const int k = padded - first < block_columns ? static_cast<int>(padded - first) : block_columns;
    const std::byte* planes = block + L::plane_at(k, first_strip);
    // Behind a panel's last block comes the first of one that this tile has begun already.
    [[maybe_unused]] const std::byte* fetched = block + (padded - first > block_columns ? 0 : (NR - 1) / 2 * panel_bytes);
    for (int g = 0; g < L::groups(k); ++g) {
      IntStrip<A> zeros[NR];
      BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
        if constexpr (L::zero_points) {
          zeros[r] = load_zeros<A, F>(block, k, first_strip + r, g);
        } else {
          zeros[r] = splat_int_strip<A>(0);
        }
      }
      // Float formats sum straight into the total; the others sum a group before they scale it.
      Strip<A> part[NR][MR];
      BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
        BANTAM_UNROLL for (int m = 0; m < MR; ++m) part[r][m] = is_float_format<F> ? total[r][m] : splat_strip<A>(0.0f);
      }
      [[maybe_unused]] float sum[MR] = {};
      const int begin = g * L::group;
      int end = begin + L::group < k ? begin + L::group : k;
      if (first + end > columns) end = static_cast<int>(columns - first);
      for (int column = begin; column < end; ++column) {
        if constexpr (fetches) {
          if (column % 8 == 0 && fetch != Fetch::nowhere) {
            BANTAM_UNROLL for (int r = 0; r < NR; r += 2) prefetch_ahead<L, NR == 1 ? 1 : 2, 8>(fetched + r / 2 * panel_bytes, first_strip, column, fetch);
          }
        }
        Strip<A> w[NR];
        BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
          const std::byte* plane = planes + r % 2 * L::plane_bytes(k);
          if constexpr (NR > 2) plane += r / 2 * panel_bytes;
          if constexpr (L::half_of_blocks) {
            const std::uint32_t kept = load_kept_blocks<A, F>(block, k, first_strip + r, g);
            w[r] = load_column_of_blocks<A, F>(plane + L::plane_bytes(begin), kept, column - begin);
          } else {
            w[r] = load_column<A, F>(plane, column, zeros[r]);
          }
        }
        BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
          const float v = values[m * x.stride + first + column];
          if constexpr (L::minimums) sum[m] += v;
          const auto b = V::splat(v);
          BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
            BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) {
              part[r][m].part[i] = V::fma(w[r].part[i], b, part[r][m].part[i]);
            }
          }
        }
      }
      BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
        if constexpr (is_float_format<F> || L::row_scales) {
          BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
            if constexpr (is_float_format<F>) {
              total[r][m] = part[r][m];
            } else {
              total[r][m] = fma_strip<A>(part[r][m], splat_strip<A>(1.0f), total[r][m]);
            }
          }
        } else {
          const Strip<A> s = load_scales<A, F>(panel, block, k, first_strip + r, g);
          BANTAM_UNROLL for (int m = 0; m < MR; ++m) total[r][m] = fma_strip<A>(part[r][m], s, total[r][m]);
          if constexpr (L::minimums) {
            const Strip<A> minimum = load_minimums<A, F>(block, k, first_strip + r, g);
            BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
              total[r][m] = fma_strip<A>(minimum, splat_strip<A>(sum[m]), total[r][m]);
            }
          }
        }
      }
    }
    block += L::block_bytes(k);
  }
  BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
    BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
      if constexpr (L::row_scales) {
        const Strip<A> s = load_strip<A>(reinterpret_cast<const float*>(panel) + (first_strip + r) * strip_rows);
        BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) total[r][m].part[i] = total[r][m].part[i] * s.part[i];
      }
      store_strip<A>(out + (m * NR + r) * strip_rows, total[r][m]);
    }
  }
}

/// Copies a finished tile to its place; the last panel may have fewer rows than 32.
template <class A, int NR, int MR>
BANTAM_INLINE void store_tile(const float* tile, std::int64_t row, std::int64_t rows, std::int64_t token,
                              const OutputRows& out) {
  for (int m = 0; m < MR; ++m) {
    for (int r = 0; r < NR; ++r) {
      float* to = out.values + (token + m) * out.stride + row + r * strip_rows;
      const float* from = tile + (m * NR + r) * strip_rows;
      const std::int64_t n = rows - (row + r * strip_rows);
      if (n >= strip_rows) {
        store_strip<A>(to, load_strip<A>(from));
      } else {
        for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
      }
    }
  }
}

/// Strips that hold columns of their own share no activations: several make no better tile.
template <QuantFormat F>
inline constexpr bool strips_alone = Strip16<F>::half_of_blocks || Strip16<F>::two_of_four;

/// All strips of one panel for MR tokens.
template <class A, QuantFormat F, class Rows, int MR>
void panel_tile(const WeightView& w, std::int64_t p, const Rows& x, std::int64_t token, [[maybe_unused]] Fetch fetch,
                const OutputRows& out) {
  // A single token has too few sums in flight to hide latency with one strip.
  constexpr int NR = MR == 1 ? 2 : strips_alone<F> ? 1 : simd::dot<A>::strips;
  const std::byte* panel = w.data + p * Strip16<F>::panel_bytes(w.columns);
  alignas(64) float tile[NR * MR * strip_rows];
  if constexpr (MR > 1) {
    // Lines that will be written: rows are far apart, and without their lines at hand stores hold up the next tile's products.
    for (int m = 0; m < MR; ++m) {
      const float* to = out.values + (token + m) * out.stride + p * panel_rows;
      __builtin_prefetch(to, 1);
      __builtin_prefetch(to + strip_rows, 1);
    }
  }
  for (int strip = 0; strip < 2; strip += NR) {
    if constexpr (std::is_same_v<Rows, QuantizedRows>) {
      tile_q8<A, F, NR, MR>(panel, strip, w.columns, x, token, fetch, tile);
    } else {
      tile_f32<A, F, NR, MR>(panel, strip, w.columns, x, token, fetch, tile);
    }
    store_tile<A, NR, MR>(tile, p * panel_rows + strip * strip_rows, w.rows, token, out);
  }
}

/// Panels of floats that a single token goes through together. Each multiplication waits for the one of the column before, those of other panels do not;
/// and what the processor's window of instructions holds of memory is more, but sums have to stay in registers.
template <class A, QuantFormat F, class Rows>
[[nodiscard]] constexpr int panels_together() {
  if (!std::is_same_v<Rows, FloatRows> || !is_float_format<F> || Strip<A>::parts > 2) return 1;
  return Strip<A>::parts == 1 && !std::is_same_v<typename F::Plane, plane::F32> ? 4 : 2;
}

template <class A, QuantFormat F, int Panels>
void single_token(const WeightView& w, std::int64_t p, const FloatRows& x, std::int64_t token, Fetch fetch, const OutputRows& out) {
  alignas(64) float tile[2 * Panels * strip_rows];
  tile_f32<A, F, 2 * Panels, 1>(w.data + p * Strip16<F>::panel_bytes(w.columns), 0, w.columns, x, token, fetch, tile);
  for (int i = 0; i < Panels; ++i) store_tile<A, 2, 1>(tile + i * 2 * strip_rows, (p + i) * panel_rows, w.rows, token, out);
}

/// One panel for tokens token .. end, in tiles that differ by at most a token: small ones leave registers idle.
template <class A, QuantFormat F, class Rows, int... Smaller>
BANTAM_INLINE void panel_tokens(const WeightView& w, std::int64_t p, const Rows& x, std::int64_t token, std::int64_t end,
                                Fetch fetch, const OutputRows& out, std::integer_sequence<int, Smaller...>) {
  using Tile = void (*)(const WeightView&, std::int64_t, const Rows&, std::int64_t, Fetch, const OutputRows&);
  static constexpr Tile tile_of[] = {panel_tile<A, F, Rows, Smaller + 1>...};
  for (std::int64_t tiles = div_up<std::int64_t>(end - token, sizeof...(Smaller)); tiles > 0; --tiles) {
    const std::int64_t n = (end - token) / tiles;
    tile_of[n - 1](w, p, x, token, fetch, out);
    token += n;
    fetch = Fetch::nowhere;  // it is in the cache now
  }
}

/// The tokens of the largest tile. Floats have no codes to unpack: on AVX2 their six tokens hide the latency of both
/// multipliers, which four cannot. One less where a format's unpacking needs registers of its own and the tile would
/// fill them all (tests/layers/check_spills.sh). Quantized weights against float activations are the exact path, which
/// no one waits for: one tile is enough there, and every further one is compiled for each format.
template <class A, QuantFormat F, class Rows>
[[nodiscard]] constexpr int most_tokens() {
  using L = Strip16<F>;
  constexpr int tokens = simd::dot<A>::tokens;
  constexpr bool roomy = L::minimums || L::exponents || L::two_of_four || (L::bits != 0 && L::bits != 4);
  if (is_float_format<F>) return simd::dot<A>::float_tokens;
  if (std::is_same_v<Rows, FloatRows>) return 1;
  if (L::half_of_blocks) return tokens * simd::dot<A>::strips;  // as many sums, of one strip
  if (L::two_of_four && simd::dot<A>::strips > 1) return tokens;  // beside as many raised activations
  if (L::trellis && tokens > 4) return tokens - 2;  // states and what is computed of them
  return tokens > 4 && roomy ? tokens - 1 : tokens;
}

/// One panel for as many tokens from `token` on as fill registers of 16; returns the first that is left.
template <class A, QuantFormat F, int... Fewer>
BANTAM_INLINE std::int64_t panel_interleaved(const WeightView& w, std::int64_t p, const QuantizedRows& x, std::int64_t token, std::int64_t end,
                                             Fetch fetch, const OutputRows& out, std::integer_sequence<int, Fewer...>) {
  using Tile = void (*)(const WeightView&, std::int64_t, int, const QuantizedRows&, std::int64_t, Fetch, const OutputRows&);
  static constexpr Tile tile_of[] = {strip_interleaved<A, F, Fewer + 1>...};
  constexpr std::int64_t most = sizeof...(Fewer);
  for (; end - token >= 16; fetch = Fetch::nowhere) {
    const std::int64_t registers = (end - token) / 16 < most ? (end - token) / 16 : most;
    for (int strip = 0; strip < 2; ++strip) tile_of[registers - 1](w, p, strip, x, token, fetch, out);
    token += registers * 16;
  }
  return token;
}

template <class A, QuantFormat F, class Rows>
void matmul(const WeightView& w, const Rows& x, const OutputRows& out, const MatmulPart& part) noexcept {
  constexpr bool interleaves = std::is_same_v<Rows, QuantizedRows> && reads_interleaved<A, F>;
  constexpr std::int64_t block = interleaves ? 96 : token_block;  // whole tiles
  constexpr int together = panels_together<A, F, Rows>();
  for (std::int64_t token = 0; token < part.tokens; token += block) {
    const std::int64_t end = token + block < part.tokens ? token + block : part.tokens;
    std::int64_t p = part.panel_begin;
    if constexpr (together > 1) {
      for (; end - token == 1 && part.panel_end - p >= together; p += together) single_token<A, F, together>(w, p, x, token, part.fetch, out);
    }
    for (; p < part.panel_end; ++p) {
      std::int64_t rest = token;
      if constexpr (interleaves) {
        constexpr std::make_integer_sequence<int, simd::dot<A>::interleaved_registers> sizes;
        if (x.interleaved != nullptr) rest = panel_interleaved<A, F>(w, p, x, token, end, part.fetch, out, sizes);
      }
      panel_tokens<A, F>(w, p, x, rest, end, rest == token ? part.fetch : Fetch::nowhere, out, std::make_integer_sequence<int, most_tokens<A, F, Rows>()>{});
    }
  }
}

}  // namespace detail

/// out = x wT for activations of 8 bits, panels of `part`. Exact in the integers. Quantized formats.
template <class A, QuantFormat F>
void matmul_q8(const WeightView& w, const QuantizedRows& x, const OutputRows& out, const MatmulPart& part) noexcept {
  detail::matmul<A, F>(w, x, out, part);
}

/// out = x wT for float activations, panels of `part`. Every format.
template <class A, QuantFormat F>
void matmul_f32(const WeightView& w, const FloatRows& x, const OutputRows& out, const MatmulPart& part) noexcept {
  detail::matmul<A, F>(w, x, out, part);
}

}  // namespace bantam::inline v0::kernels
