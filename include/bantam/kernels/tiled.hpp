// Products of many tokens on registers that hold tiles (AMX): 16 tokens by 16 channels by up to 64 columns in one instruction.
//
// Codes become signed bytes once for all tokens of a block of them, less their offsets and zero points, so integer sums need no correction.
// The sums of a group leave the tile registers through memory, are scaled and added in the order of kernels/matmul.hpp: the same results,
// bit for bit.
#pragma once

#include "bantam/kernels/matmul.hpp"
#include "bantam/simd/code_lines.hpp"

namespace bantam::inline v0::kernels::detail {

/// Tokens, and channels, of a tile.
inline constexpr int tile_rows = 16;

/// One block of a panel, as tiles meet it. Columns that its row does not have are zeros.
template <QuantFormat F>
struct TiledBlock {
  static constexpr int groups = block_columns / Strip16<F>::group;
  alignas(64) std::int8_t codes[2][block_columns / 4][64];
  alignas(64) float scales[2][groups][strip_rows];
  alignas(64) float minimums[2][Strip16<F>::minimums ? groups : 1][strip_rows];
};

/// The bytes of group `g` of a strip that holds blocks of its own.
template <class A, class R, QuantFormat F>
BANTAM_INLINE void expand_kept(const std::byte* block, int k, int strip, int g, std::int8_t (*lines)[64]) {
  using L = Strip16<F>;
  for (int i = 0; i < L::group / 4; ++i) R::store(lines[i], R::zero());
  const auto* unit = reinterpret_cast<const std::uint8_t*>(block + L::plane_at(k, strip) + L::plane_bytes(g * L::group));
  std::uint32_t kept = load_kept_blocks<A, F>(block, k, strip, g);
  for (int i = 0; i < simd::kept_blocks; i += 2, unit += 64) {
    typename R::Reg even, odd;
    simd::x86_codes<R>::signed_blocks(unit, even, odd);
    R::store(lines[simd::next_block(kept)], even);
    R::store(lines[simd::next_block(kept)], odd);
  }
}

/// Unpacks a block of `k` columns.
template <class A, class R, QuantFormat F>
__attribute__((noinline)) void expand_block(const std::byte* panel, const std::byte* block, int k, Fetch fetch, TiledBlock<F>& to) noexcept {
  using L = Strip16<F>;
  static constexpr CodebookBytes<F> codebook{};
  for (int strip = 0; strip < 2; ++strip) {
    std::int8_t(*lines)[64] = to.codes[strip];
    for (int column = 0; fetch != Fetch::nowhere && column < k; column += 32) prefetch_ahead<L, 1>(block, strip, column, fetch);
    if constexpr (L::half_of_blocks) {
      for (int g = 0; g < L::groups(k); ++g) expand_kept<A, R, F>(block, k, strip, g, lines + g * L::group / 4);
    } else {
      constexpr int unit = L::trellis ? L::Plane::column_unit : 32;
      for (int column = 0; column < k; column += unit) {
        const auto* codes = reinterpret_cast<const std::uint8_t*>(block + L::plane_at(k, strip) + L::plane_bytes(column));
        typename R::Reg line[unit / 4];
        simd::code_lines<R>(dot_plane<F>{}, codes, column != 0, codebook.level, line);
        BANTAM_UNROLL for (int i = 0; i < unit / 4; ++i) {
          if constexpr (L::zero_points) {
            // A zero point in all four bytes of its channel.
            IntStrip<A> zeros = load_zeros<A, F>(block, k, strip, (column + 4 * i) / L::group);
            zeros.part[0] = zeros.part[0] | simd::vec<A>::shift_left(zeros.part[0], 8);
            zeros.part[0] = zeros.part[0] | simd::vec<A>::shift_left(zeros.part[0], 16);
            line[i] = R::sub8(line[i], zeros.part[0]);
          } else if constexpr (code_offset<F> != 0 && !L::two_of_four) {
            line[i] = R::sub8(line[i], R::bytes(code_offset<F>));
          }
          R::store(lines[column / 4 + i], line[i]);
        }
      }
    }
    for (int i = k / 4; i < block_columns / 4; ++i) R::store(lines[i], R::zero());
    for (int g = 0; g < TiledBlock<F>::groups; ++g) {
      const bool there = g < L::groups(k);
      Strip<A> scales = there ? load_scales<A, F>(panel, block, k, strip, g) : splat_strip<A>(0.0f);
      if constexpr (has_levels<F> && level_unit<F> != 1.0f) scales = mul_strip<A>(scales, splat_strip<A>(level_unit<F>));
      store_strip<A>(to.scales[strip][g], scales);
      if constexpr (L::minimums) store_strip<A>(to.minimums[strip][g], there ? load_minimums<A, F>(block, k, strip, g) : splat_strip<A>(0.0f));
    }
  }
}

/// Products of one panel and a block of tokens. T: whose tile registers.
template <class A, class T, QuantFormat F>
class TiledPanel {
  using L = Strip16<F>;
  using V = vec<A>;
  using Block = TiledBlock<F>;
  using Sums = std::int32_t[tile_rows * strip_rows];
  static constexpr int groups = Block::groups;
  static constexpr bool fine = L::activation_block == 32;

 public:
  static constexpr std::int64_t most_tokens = 256;
  /// Columns of one instruction.
  static constexpr int columns = L::group < 64 ? L::group : 64;

  explicit TiledPanel(simd::Tiles<T>& tiles) : tiles_(tiles) {}

  /// Panel `p` for tokens `token` .. `end`, 16 to most_tokens.
  void multiply(const WeightView& w, std::int64_t p, const QuantizedRows& x, std::int64_t token, std::int64_t end, Fetch fetch, const OutputRows& out) {
    const std::byte* panel = w.data + p * L::panel_bytes(w.columns);
    const std::byte* block = panel + L::header;
    const std::int64_t count = end - token, padded = L::padded_columns(w.columns);
    for (std::int64_t first = 0; first < padded; first += block_columns) {
      const int k = padded - first < block_columns ? static_cast<int>(padded - first) : block_columns;
      expand_block<A, typename simd::Tiles<T>::Registers, F>(panel, block, k, fetch, block_);
      block += L::block_bytes(k);
      const Rows rows{x.values + token * x.stride + first, x.scales + first / L::activation_block * x.width + token,
                      x.sums + first / sum_columns * x.width + token, x.stride, x.width, first == 0};
      std::int64_t tile = 0;
      const auto step = [&]<int Tiles>(std::integral_constant<int, Tiles>) {
        if (first + k == padded) fetch_output<Tiles>(out, token + first_of(tile, count), p * panel_rows);
        multiply_tiles<Tiles>(rows, tile, count);
        scale_tiles<Tiles>(rows, tile, count);
        tile += Tiles;
      };
      if constexpr (together > 1) {
        while (tile + together <= tiles_of(count)) step(std::integral_constant<int, together>{});
      }
      while (tile < tiles_of(count)) step(std::integral_constant<int, 1>{});
    }
    finish(w, p, token, count, out);
  }

 private:
  /// The rounded activations of a block of tokens from one block of columns on, which is the first or adds to what there is.
  struct Rows {
    const std::int8_t* values;
    const float* scales;
    const std::int32_t* sums;
    std::int64_t stride, width;
    bool begins;
  };

  /// Tiles of tokens that share what is loaded of the weights. With short groups there would be too many sums to stay in the first-level cache.
  static constexpr int together = L::group < 64 ? 1 : 2;

  [[nodiscard]] static std::int64_t tiles_of(std::int64_t count) { return div_up<std::int64_t>(count, tile_rows); }
  /// The first token of a tile. The last tile may meet tokens of the one before again: the same sums, in a place of their own.
  [[nodiscard]] static std::int64_t first_of(std::int64_t tile, std::int64_t count) {
    return tile * tile_rows <= count - tile_rows ? tile * tile_rows : count - tile_rows;
  }

  /// Groups, tiles and strips whose sums are made at a time. An instruction waits 52 cycles for the one before it with the same sums, and takes
  /// 16 itself: four take turns.
  template <int Tiles>
  static constexpr int groups_at_once = Tiles == 1 && groups > 1 ? 2 : 1;
  template <int Tiles>
  static constexpr int at_once = groups_at_once<Tiles> * Tiles * 2;
  /// Where the sums of a group, tile and strip are.
  template <int Tiles>
  [[nodiscard]] static constexpr int place_of(int g, int t, int strip) {
    constexpr int step = groups_at_once<Tiles>;
    return g / step * at_once<Tiles> + (g % step * Tiles + t) * 2 + strip;
  }

  /// The sums of all groups of a block.
  template <int Tiles>
  __attribute__((noinline)) void multiply_tiles(const Rows& x, std::int64_t tile, std::int64_t count) {
    constexpr int step = groups_at_once<Tiles>, sums = at_once<Tiles>;
    const std::int8_t* values[Tiles];
    BANTAM_UNROLL for (int t = 0; t < Tiles; ++t) values[t] = x.values + first_of(tile + t, count) * x.stride;
    const std::int8_t* codes = block_.codes[0][0];
    Sums* to = products_;
    // Sums leave their register when it is wanted again: they are there by then.
    const auto make_sums = [&](bool first_of_all) __attribute__((always_inline)) {
#pragma GCC unroll 1
      for (int column = 0; column < L::group; column += columns) {
        for_each_of<step>([&](auto g) __attribute__((always_inline)) {
          for_each_of<2>([&](auto strip) __attribute__((always_inline)) {
            tiles_.template load<6 + strip.value>(codes + strip.value * block_columns * strip_rows + (g.value * L::group + column) * strip_rows, 64);
            for_each_of<Tiles>([&](auto t) __attribute__((always_inline)) {
              constexpr int sum = (g.value * Tiles + t.value) * 2 + strip.value, row = 4 + (g.value + t.value) % 2;
              if constexpr (strip.value == 0) tiles_.template load<row>(values[t.value] + g.value * L::group + column, x.stride);
              if (column == 0) {
                if (!first_of_all) tiles_.template store<sum>(to[sum - sums]);
                tiles_.template zero<sum>();
              }
              tiles_.template multiply<sum, row, 6 + strip.value>();
            });
          });
        });
      }
      codes += step * L::group * strip_rows;
      BANTAM_UNROLL for (int t = 0; t < Tiles; ++t) values[t] += step * L::group;
      to += sums;
    };
    make_sums(true);
#pragma GCC unroll 1
    for (int g = step; g < groups; g += step) make_sums(false);
    for_each_of<sums>([&](auto sum) __attribute__((always_inline)) { tiles_.template store<sum.value>(to[sum.value - sums]); });
  }

  /// Adds what those are, times their scales, to the blocks before. A loop of its own: beside instructions on tiles vectors of 64 bytes take
  /// twice as long (Emerald Rapids), and doing both at once was slower by a third.
  template <int Tiles>
  __attribute__((noinline)) void scale_tiles(const Rows& x, std::int64_t tile, std::int64_t count) {
#pragma GCC unroll 1
    for (int i = 0; i < Tiles * 2; ++i) {
      const int t = i / 2, strip = i % 2;
      const std::int64_t token = first_of(tile + t, count);
      Strip<A> f[tile_rows];
      BANTAM_UNROLL for (int m = 0; m < tile_rows; ++m) f[m] = splat_strip<A>(0.0f);
#pragma GCC unroll 1
      for (int g = 0; g < groups; ++g) scale(x, strip, g, token, products_[place_of<Tiles>(g, t, strip)], f);
      float* sums = sums_[tile + t][strip];
      BANTAM_UNROLL for (int m = 0; m < tile_rows; ++m) {
        float* sum = sums + m * strip_rows;
        const Strip<A> so_far = x.begins ? splat_strip<A>(0.0f) : load_strip<A>(sum);
        store_strip<A>(sum, fma_strip<A>(f[m], splat_strip<A>(fine ? 1.0f : x.scales[token + m]), so_far));
      }
    }
  }

  /// Adds a group's sums, times their scales, to f.
  BANTAM_INLINE void scale(const Rows& x, int strip, int g, std::int64_t token, const std::int32_t* products, Strip<A> (&f)[tile_rows]) {
    const Strip<A> s = load_strip<A>(block_.scales[strip][g]);
    [[maybe_unused]] const float* d = x.scales + g * x.width + token;
    [[maybe_unused]] alignas(64) float x_sums[tile_rows];
    [[maybe_unused]] Strip<A> minimum;
    if constexpr (L::minimums) {
      const std::int32_t* of_group = x.sums + g * (L::group / sum_columns) * x.width + token;
      auto sum = V::load_int(of_group);
      for (int i = 1; i < L::group / sum_columns; ++i) sum = sum + V::load_int(of_group + i * x.width);
      const auto positive = V::to_float(V::splat_int(0) - sum);
      V::store(x_sums, fine ? positive * V::load(d) : positive);
      __asm__("" : "+m"(x_sums));
      minimum = load_strip<A>(block_.minimums[strip][g]);
    }
    BANTAM_UNROLL for (int m = 0; m < tile_rows; ++m) {
      const Strip<A> product = float_strip<A>(load_int_strip<A>(reinterpret_cast<const std::byte*>(products + m * strip_rows)));
      if constexpr (fine) {
        f[m] = fma_strip<A>(mul_strip<A>(product, s), splat_strip<A>(d[m]), f[m]);
      } else {
        f[m] = fma_strip<A>(product, s, f[m]);
      }
      if constexpr (L::minimums) f[m] = fma_strip<A>(minimum, splat_strip<A>(x_sums[m]), f[m]);
    }
  }

  /// Lines that will be written: rows are far apart, and stores would wait for each.
  template <int Tiles>
  static BANTAM_INLINE void fetch_output(const OutputRows& out, std::int64_t token, std::int64_t row) {
    const float* to = out.values + token * out.stride + row;
    for (int m = 0; m < Tiles * tile_rows; ++m, to += out.stride) {
      __builtin_prefetch(to, 1);
      __builtin_prefetch(to + strip_rows, 1);
    }
  }

  /// Sums to their places.
  void finish(const WeightView& w, std::int64_t p, std::int64_t token, std::int64_t count, const OutputRows& out) {
    [[maybe_unused]] const auto* row_scales = reinterpret_cast<const float*>(w.data + p * L::panel_bytes(w.columns));
    for (std::int64_t tile = 0; tile < tiles_of(count); ++tile) {
      for (int strip = 0; strip < 2; ++strip) {
        float* sums = sums_[tile][strip];
        if constexpr (L::row_scales) {
          const Strip<A> s = load_strip<A>(row_scales + strip * strip_rows);
          for (int m = 0; m < tile_rows; ++m) store_strip<A>(sums + m * strip_rows, mul_strip<A>(load_strip<A>(sums + m * strip_rows), s));
        }
        store_tile<A, 1, tile_rows>(sums, p * panel_rows + strip * strip_rows, w.rows, token + first_of(tile, count), out);
      }
    }
  }

  template <int Count, class Visitor>
  static BANTAM_INLINE void for_each_of(Visitor&& visit) {
    [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
      (visit(std::integral_constant<int, I>{}), ...);
    }(std::make_integer_sequence<int, Count>{});
  }

  simd::Tiles<T>& tiles_;
  Block block_;
  alignas(64) Sums products_[groups * together * 2];
  alignas(64) float sums_[most_tokens / tile_rows][2][tile_rows * strip_rows];
};

/// Activations of a block of tokens stay in the second-level cache while panels pass by.
[[nodiscard]] inline std::int64_t tiled_tokens(std::int64_t stride, std::int64_t most) {
  const std::int64_t fit = (std::int64_t{1} << 20) / stride / 64 * 64;
  return fit < 64 ? 64 : fit > most ? most : fit;
}

}  // namespace bantam::inline v0::kernels::detail

namespace bantam::inline v0::kernels {

/// int8_rate (kernels/make_table.hpp) of tiles.
template <class T>
std::int64_t int8_rate_of_tiles(std::int64_t rounds) noexcept {
  simd::Tiles<T> tiles(64);
  for (std::int64_t i = 0; i < rounds; ++i) {
    tiles.template multiply<0, 4, 6>();
    tiles.template multiply<1, 4, 7>();
    tiles.template multiply<2, 5, 6>();
    tiles.template multiply<3, 5, 7>();
  }
  return rounds * 4 * 2 * 16 * 16 * 64;
}

/// matmul_q8 on tiles; fewer tokens than a tile has go to `A`'s.
template <class A, class T, QuantFormat F>
void matmul_tiled(const WeightView& w, const QuantizedRows& x, const OutputRows& out, const MatmulPart& part) noexcept {
  using Panel = detail::TiledPanel<A, T, F>;
  if (part.tokens < detail::tile_rows) return table<A>().formats[format_index<F>()].matmul_q8(w, x, out, part);
  simd::Tiles<T> tiles(Panel::columns);
  Panel panel(tiles);
  // Blocks of tokens of much the same size, whole tiles but for the last, which is a tile or more.
  const std::int64_t blocks = div_up(part.tokens, detail::tiled_tokens(x.stride, Panel::most_tokens));
  for (std::int64_t i = 0, token = 0, end = 0; i < blocks; ++i, token = end) {
    end = i + 1 < blocks ? round_up<std::int64_t>(part.tokens * (i + 1) / blocks, detail::tile_rows) : part.tokens;
    for (std::int64_t p = part.panel_begin; p < part.panel_end; ++p) panel.multiply(w, p, x, token, end, part.fetch, out);
  }
}

}  // namespace bantam::inline v0::kernels
