// Integer dot products on x86-64, for registers R of either width (ymm.hpp, zmm.hpp): with VNNI, and without.
#pragma once

#include <type_traits>

#include "bantam/simd/dot.hpp"
#include "bantam/simd/sparse.hpp"
#include "bantam/simd/trellis.hpp"

namespace bantam::inline v0::simd {

/// What both ways share: unpacking codes.
template <class R>
struct x86_codes {
  using Reg = typename R::Reg;
  static constexpr int width = static_cast<int>(sizeof(Reg));
  static constexpr int parts = 64 / width;  ///< registers a line
  alignas(16) static constexpr std::int8_t signed_nibbles[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};

  /// One part of the codes of four number `i` from `first` on; i is a constant once loops are unrolled.
  template <int Bits>
  static BANTAM_INLINE Reg four(Codes<Bits>, const std::uint8_t* part, int first, int i) {
    const auto move = [](Reg q, int from, int to, int mask) __attribute__((always_inline)) {
      return R::both(from >= to ? R::right(q, from - to) : R::left(q, to - from), R::bytes(mask << to));
    };
    Reg code = R::zero();
    if constexpr ((Bits & 4) != 0) code = move(R::load(part + (first / 2 + i / 2) * 64), i % 2 * 4, 0, 15);
    if constexpr ((Bits & 2) != 0) {
      code = R::either(code, move(R::load(part + ((Bits & 4) + first / 4 + i / 4) * 64), i % 4 * 2, Bits & 4, 3));
    }
    if constexpr ((Bits & 1) != 0) {
      code = R::either(code, move(R::right_by(R::load(part + (Bits & 6) * 64), first), i, Bits & 6, 1));
    }
    return code;
  }
  /// Where two of four are kept: of pair number `i` of fours in a unit, which of 16 columns each channel's four codes belong to.
  static BANTAM_INLINE Reg columns_of(const std::uint8_t* part, int i) {
    const Reg numbers = R::load(part);
    const auto* table = pair_columns.of_four;
    __asm__("" : "+r"(table));  // not to be kept in registers, of which tiles need all
    return R::either(R::pick(table[i % 2 * 2], R::right32(numbers, i * 8)), R::pick(table[i % 2 * 2 + 1], R::right32(numbers, i * 8 + 4)));
  }
  /// Those codes as signed bytes.
  template <int Bits>
  static BANTAM_INLINE Reg kept_codes(TwoOfFour<Bits>, const std::uint8_t* part, int i) {
    if constexpr (Bits == 8) return R::load(part + 64 + i * 64);
    const Reg q = R::load(part + 64 + i / 2 * 64);
    return R::look_up(R::table(signed_nibbles), R::both(i % 2 == 0 ? q : R::right(q, 4), R::bytes(15)));
  }
  /// Four columns' weights of one part, of the states in step `i` of both halves of a unit; `levels` may be raised.
  template <int StepBits>
  static BANTAM_INLINE Reg weights(Trellis<StepBits>, const std::uint8_t* part, bool follows, int i, Reg levels, Reg offsets) {
    using Unit = TrellisUnit<StepBits>;
    const int line = Unit::piece_of(i), shift = Unit::shift_of(i);
    Reg state = R::load(part + line * 64);
    if (shift != 0) {
      Reg before;
      if (line != 0) {
        before = R::load(part + (line - 1) * 64);
      } else {
        // The upper half follows the lower one, which follows the upper one of the unit before.
        before = R::left32(R::load(part + (Unit::lines - 1) * 64), 16);
        if (follows) before = R::either(before, R::right32(R::load(part - 64), 16));
      }
      state = R::either(R::right(state, shift), R::left(before, 16 - shift));
    }
    const Reg first = R::right(R::multiply_low(state, R::words(trellis_factor[0])), 9);
    const Reg bits = R::either(first, R::both(R::multiply_low(state, R::words(trellis_factor[1])), R::words(0x7f00)));
    return R::add8(R::look_up(levels, bits), R::look_up(offsets, R::both(R::right(bits, 4), R::bytes(7))));
  }
  /// Calls f(strip, part, where it begins) for each register of a line of every strip.
  template <int NR, class F>
  static BANTAM_INLINE void for_registers(const std::uint8_t* unit, std::ptrdiff_t plane_stride, F&& f) {
    BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
      BANTAM_UNROLL for (int part = 0; part < parts; ++part) f(r, part, unit + r * plane_stride + part * width);
    }
  }
  /// Activations as unsigned bytes, 128 more than they are, so that codes may be signed. Raising all of a group at once, on the
  /// stack, was a fifth slower.
  static BANTAM_INLINE Reg raised(const std::int8_t* p) { return R::flip(R::broadcast(p), R::bytes(128)); }
  /// Sixteen of them in every 16 bytes.
  static BANTAM_INLINE Reg raised_table(const std::int8_t* p) { return R::flip(R::table(p), R::bytes(128)); }
  /// Two blocks' codes in a line.
  static BANTAM_INLINE void blocks(const std::uint8_t* line, Reg& w0, Reg& w1) {
    const Reg q = R::load(line);
    w0 = R::both(q, R::bytes(15));
    w1 = R::both(R::right(q, 4), R::bytes(15));
  }
  /// The same, less 8.
  static BANTAM_INLINE void signed_blocks(const std::uint8_t* line, Reg& w0, Reg& w1) {
    blocks(line, w0, w1);
    w0 = R::sub8(w0, R::bytes(8));
    w1 = R::sub8(w1, R::bytes(8));
  }
};

/// Without VNNI: products of unsigned and signed bytes are added by pairs in int16, then by pairs in int32.
template <class A, class R, int Strips, int Tokens>
struct madd_dot {
  static constexpr int strips = Strips;
  static constexpr int tokens = fewer_when_checked(Tokens);
  static constexpr int float_tokens = fewer_when_checked(6);
  static constexpr int byte_bias = 0;
  static constexpr int codebook_bias = 0;

  template <class Plane, int Columns, int NR, int MR>
  static BANTAM_INLINE void accumulate(const std::uint8_t* unit, std::ptrdiff_t plane_stride, const std::int8_t* x,
                                       std::ptrdiff_t x_stride, [[maybe_unused]] int first, const std::int8_t* lut,
                                       IntStrip<A> (&c)[NR][MR]) {
    if constexpr (std::is_same_v<Plane, Bytes> || std::is_same_v<Plane, Codebook>) {
      static_assert(Columns == 32 || !std::is_same_v<Plane, Bytes>);
      signed_codes<Plane, Columns>(unit + first / 2 * 64, plane_stride, x, x_stride, lut, c);
    } else if constexpr (holds_two_of_four<Plane>) {
      static_assert(Columns == 32);
      Unpack::template for_registers<NR>(unit, plane_stride, [&](int r, int part, const std::uint8_t* p)
                                             __attribute__((always_inline)) { two_of_four(Plane{}, p, x, x_stride, part, c[r]); });
    } else if constexpr (is_trellis<Plane>) {
      static_assert(Columns % 32 == 0);
      const Reg levels = R::table(trellis_level), offsets = R::table(trellis_offset);
      BANTAM_UNROLL for (int i = 0; i < Columns / 4; ++i) {
        Unpack::template for_registers<NR>(unit, plane_stride, [&](int r, int part, const std::uint8_t* p) __attribute__((always_inline)) {
          add_signed(Unpack::weights(Plane{}, p, first != 0, i, levels, offsets), x + i * 4, x_stride, part, c[r]);
        });
      }
    } else {
      unsigned_codes<Columns>(Plane{}, unit, plane_stride, x, x_stride, first, c);
    }
  }

  template <int MR>
  static BANTAM_INLINE void accumulate_blocks(const std::uint8_t* unit, const std::int8_t* x, std::ptrdiff_t x_stride, std::uint32_t kept,
                                              IntStrip<A> (&c)[MR]) {
#pragma GCC unroll 1
    for (int half = 0; half < 2; ++half) half_of_blocks(unit + half * kept_blocks / 4 * 64, x, x_stride, kept, c);
  }

 private:
  using Unpack = x86_codes<R>;
  using Reg = typename R::Reg;
  static constexpr int width = Unpack::width;
  static constexpr int parts = Unpack::parts;

  /// The next eight blocks, for one token: what its codes count too much is summed beside them. Eight products of a code and a signed
  /// byte fit int16: 8 * 2 * 15 * 127 = 30480.
  static BANTAM_INLINE void half_of_blocks(const std::uint8_t* line, const std::int8_t* x, std::ptrdiff_t, std::uint32_t& left,
                                           IntStrip<A> (&c)[1]) {
    Reg sum[parts], excess = R::zero();
    BANTAM_UNROLL for (int part = 0; part < parts; ++part) sum[part] = R::zero();
#pragma GCC unroll 2
    for (int i = 0; i < kept_blocks / 4; ++i, line += 64) {
      const Reg b0 = R::broadcast(x + next_block(left) * 4);
      const Reg b1 = R::broadcast(x + next_block(left) * 4);
      excess = R::add16(excess, R::add16(R::multiply_bytes(R::bytes(8), b0), R::multiply_bytes(R::bytes(8), b1)));
      BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
        Reg w0, w1;
        Unpack::blocks(line + part * width, w0, w1);
        sum[part] = R::add16(sum[part], R::add16(R::multiply_bytes(w0, b0), R::multiply_bytes(w1, b1)));
      }
    }
    BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
      c[0].part[part] = R::add32(c[0].part[part], R::multiply_words(R::sub16(sum[part], excess), R::ones()));
    }
  }

  /// The same for several tokens: their bytes are raised and codes signed, 8 * 2 * 255 * 8 = 32640, and one sum of codes corrects all.
  template <int MR>
  static BANTAM_INLINE void half_of_blocks(const std::uint8_t* line, const std::int8_t* x, std::ptrdiff_t x_stride, std::uint32_t& left,
                                           IntStrip<A> (&c)[MR]) {
    Reg sum[MR][parts], codes[parts];
    BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
      codes[part] = R::zero();
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) sum[m][part] = R::zero();
    }
#pragma GCC unroll 1
    for (int i = 0; i < kept_blocks / 4; ++i, line += 64) {
      const std::int8_t* x0 = x + next_block(left) * 4;
      const std::int8_t* x1 = x + next_block(left) * 4;
      Reg w0[parts], w1[parts];
      BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
        Unpack::signed_blocks(line + part * width, w0[part], w1[part]);
        codes[part] = R::add8(codes[part], R::add8(w0[part], w1[part]));
      }
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
        const Reg b0 = Unpack::raised(x0 + m * x_stride), b1 = Unpack::raised(x1 + m * x_stride);
        BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
          sum[m][part] = R::add16(sum[m][part], R::multiply_bytes(b0, w0[part]));
          sum[m][part] = R::add16(sum[m][part], R::multiply_bytes(b1, w1[part]));
        }
      }
    }
    BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
      const Reg raise = R::multiply_bytes(R::bytes(128), codes[part]);
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
        const Reg products = R::multiply_words(R::sub16(sum[m][part], raise), R::ones());
        c[m].part[part] = R::add32(c[m].part[part], products);
      }
    }
  }

  /// Four codes of a channel at a time, out of 32 columns, and the activations that each belongs to: half the products of all columns. Four pairs
  /// of products of raised activations and signed codes fit int16, 4 * 2 * 255 * 8 = 16320, and one sum of codes corrects all tokens.
  template <int MR>
  static BANTAM_INLINE void two_of_four(TwoOfFour<4> plane, const std::uint8_t* p, const std::int8_t* x, std::ptrdiff_t x_stride, int part,
                                        IntStrip<A> (&c)[MR]) {
    Reg sum[MR], codes = R::zero();
    BANTAM_UNROLL for (int i = 0; i < 4; ++i) {
      const Reg columns = Unpack::columns_of(p, i);
      const Reg w = Unpack::kept_codes(plane, p, i);
      codes = R::add8(codes, w);
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
        const Reg products = R::multiply_bytes(R::look_up(Unpack::raised_table(x + m * x_stride + i / 2 * 16), columns), w);
        sum[m] = i == 0 ? products : R::add16(sum[m], products);
      }
    }
    const Reg raise = R::multiply_bytes(R::bytes(128), codes);
    BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
      c[m].part[part] = R::add32(c[m].part[part], R::multiply_words(R::sub16(sum[m], raise), R::ones()));
    }
  }
  template <int MR>
  static BANTAM_INLINE void two_of_four(TwoOfFour<8> plane, const std::uint8_t* p, const std::int8_t* x, std::ptrdiff_t x_stride, int part,
                                        IntStrip<A> (&c)[MR]) {
    BANTAM_UNROLL for (int i = 0; i < 4; ++i) {
      const Reg columns = Unpack::columns_of(p, i);
      const Reg w = Unpack::kept_codes(plane, p, i);
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
        c[m].part[part] = R::add32(c[m].part[part], products_of_signed(w, R::look_up(R::table(x + m * x_stride + i / 2 * 16), columns)));
      }
    }
  }

  /// |w| times x with w's sign. 2 * 128 * 127 fits int16.
  static BANTAM_INLINE Reg products_of_signed(Reg w, Reg x) {
    return R::multiply_words(R::multiply_bytes(R::magnitude(w), R::with_sign(x, w)), R::ones());
  }

  template <class Plane, int Columns, int NR, int MR>
  static BANTAM_INLINE void signed_codes(const std::uint8_t* unit, std::ptrdiff_t plane_stride, const std::int8_t* x,
                                         std::ptrdiff_t x_stride, const std::int8_t* lut, IntStrip<A> (&c)[NR][MR]) {
    [[maybe_unused]] Reg table = R::ones();
    if constexpr (std::is_same_v<Plane, Codebook>) table = R::table(lut);
    // Bytes carry 4 columns a line, nibbles 8 in two halves.
    constexpr int columns = std::is_same_v<Plane, Bytes> ? 4 : 8;
#pragma GCC unroll 1
    for (int column = 0; column < Columns; column += columns) {
      BANTAM_UNROLL for (int half = 0; half < columns / 4; ++half) {
        BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
          BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
            Reg w = R::load(unit + r * plane_stride + column / columns * 64 + part * width);
            if constexpr (std::is_same_v<Plane, Codebook>) {
              w = R::look_up(table, R::both(half == 0 ? w : R::right(w, 4), R::bytes(15)));
            }
            add_signed(w, x + column + half * 4, x_stride, part, c[r]);
          }
        }
      }
    }
  }
  /// The products of four columns.
  template <int MR>
  static BANTAM_INLINE void add_signed(Reg w, const std::int8_t* x, std::ptrdiff_t x_stride, int part, IntStrip<A> (&c)[MR]) {
    BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
      c[m].part[part] = R::add32(c[m].part[part], products_of_signed(w, R::broadcast(x + m * x_stride)));
    }
  }

  /// Sums stay in int16 as long as they fit (eight nibbles: 8 * 2 * 15 * 127 = 30480), and are widened then.
  template <int Columns, template <int> class Plane, int Bits, int NR, int MR>
  static BANTAM_INLINE void unsigned_codes(Plane<Bits> plane, const std::uint8_t* unit, std::ptrdiff_t plane_stride, const std::int8_t* x,
                                           std::ptrdiff_t x_stride, int first, IntStrip<A> (&c)[NR][MR]) {
    constexpr int fit = 32767 / (2 * 127 * ((1 << Bits) - 1)) / 2;  // pairs of fours
    constexpr int pairs = Columns / 8;
    const Reg ones = R::ones();
    Reg sum[NR][MR][parts];
    BANTAM_UNROLL for (int pair = 0; pair < pairs; ++pair) {
      Reg codes[NR][parts][2];
      BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
        BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
          const std::uint8_t* p = unit + r * plane_stride + part * width;
          codes[r][part][0] = Unpack::four(plane, p, first, 2 * pair);
          codes[r][part][1] = Unpack::four(plane, p, first, 2 * pair + 1);
        }
      }
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
        const Reg b0 = R::broadcast(x + m * x_stride + pair * 8);
        const Reg b1 = R::broadcast(x + m * x_stride + pair * 8 + 4);
        BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
          BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
            const Reg both = R::add16(R::multiply_bytes(codes[r][part][0], b0), R::multiply_bytes(codes[r][part][1], b1));
            sum[r][m][part] = pair % fit == 0 ? both : R::add16(sum[r][m][part], both);
            if (pair % fit == fit - 1 || pair == pairs - 1) {
              c[r][m].part[part] = R::add32(c[r][m].part[part], R::multiply_words(sum[r][m][part], ones));
            }
          }
        }
      }
    }
  }
};

/// With VNNI, which multiplies unsigned codes by signed activations: signed ones are biased by 128.
template <class A, class R, int Strips, int Tokens>
struct vnni_dot {
  static constexpr int strips = Strips;
  static constexpr int tokens = fewer_when_checked(Tokens);
  static constexpr int float_tokens = fewer_when_checked(6);
  static constexpr int byte_bias = 128;
  static constexpr int codebook_bias = 128;

  template <class Plane, int Columns, int NR, int MR>
  static BANTAM_INLINE void accumulate(const std::uint8_t* unit, std::ptrdiff_t plane_stride, const std::int8_t* x,
                                       std::ptrdiff_t x_stride, [[maybe_unused]] int first, const std::int8_t* lut,
                                       IntStrip<A> (&c)[NR][MR]) {
    if constexpr (holds_two_of_four<Plane>) {
      static_assert(Columns == 32);
      Unpack::template for_registers<NR>(unit, plane_stride, [&](int r, int part, const std::uint8_t* p)
                                             __attribute__((always_inline)) { two_of_four(Plane{}, p, x, x_stride, part, c[r]); });
    } else {
      whole_codes<Plane, Columns>(unit, plane_stride, x, x_stride, first, lut, c);
    }
  }

  /// For one token: what its codes count too much is summed beside them.
  static BANTAM_INLINE void accumulate_blocks(const std::uint8_t* line, const std::int8_t* x, std::ptrdiff_t, std::uint32_t left,
                                              IntStrip<A> (&c)[1]) {
    Reg even[parts], odd[parts], too_much[2] = {R::zero(), R::zero()};
    BANTAM_UNROLL for (int part = 0; part < parts; ++part) even[part] = odd[part] = R::zero();
#pragma GCC unroll 2
    for (int i = 0; i < kept_blocks / 2; ++i, line += 64) {
      const Reg b0 = R::broadcast(x + next_block(left) * 4);
      const Reg b1 = R::broadcast(x + next_block(left) * 4);
      R::dp(too_much[0], R::bytes(8), b0);
      R::dp(too_much[1], R::bytes(8), b1);
      BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
        Reg w0, w1;
        Unpack::blocks(line + part * width, w0, w1);
        R::dp(even[part], w0, b0);
        R::dp(odd[part], w1, b1);
      }
    }
    const Reg excess = R::add32(too_much[0], too_much[1]);
    BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
      const Reg products = R::sub32(R::add32(even[part], odd[part]), excess);
      c[0].part[part] = R::add32(c[0].part[part], products);
    }
  }

  /// For several, activations are the unsigned operand and codes the signed one: then one sum of the strip's codes corrects all. 16 codes
  /// of -8 .. 7 add up in a byte.
  template <int MR>
  static BANTAM_INLINE void accumulate_blocks(const std::uint8_t* line, const std::int8_t* x, std::ptrdiff_t x_stride, std::uint32_t left,
                                              IntStrip<A> (&c)[MR]) {
    Reg sum[MR][parts], codes[parts];
    BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
      codes[part] = R::zero();
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) sum[m][part] = c[m].part[part];
    }
#pragma GCC unroll 1
    for (int i = 0; i < kept_blocks / 2; ++i, line += 64) {
      const std::int8_t* x0 = x + next_block(left) * 4;
      const std::int8_t* x1 = x + next_block(left) * 4;
      Reg w0[parts], w1[parts];
      BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
        Unpack::signed_blocks(line + part * width, w0[part], w1[part]);
        codes[part] = R::add8(codes[part], R::add8(w0[part], w1[part]));
      }
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
        const Reg b = Unpack::raised(x0 + m * x_stride);
        BANTAM_UNROLL for (int part = 0; part < parts; ++part) R::dp(sum[m][part], b, w0[part]);
      }
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
        const Reg b = Unpack::raised(x1 + m * x_stride);
        BANTAM_UNROLL for (int part = 0; part < parts; ++part) R::dp(sum[m][part], b, w1[part]);
      }
    }
    BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
      Reg raise = R::zero();
      R::dp(raise, R::bytes(128), codes[part]);
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) c[m].part[part] = R::sub32(sum[m][part], raise);
    }
  }

 private:
  using Unpack = x86_codes<R>;
  using Reg = typename R::Reg;
  static constexpr int width = Unpack::width;
  static constexpr int parts = Unpack::parts;

  /// Four codes of a channel at a time, out of 32 columns, and the activations that each belongs to: half the products of all columns.
  /// Activations are raised, and the sum of codes corrects all tokens. A loop over halves that shares the raised ones is slower, by 3 to 8 %.
  template <class Plane, int MR>
  static BANTAM_INLINE void two_of_four(Plane plane, const std::uint8_t* p, const std::int8_t* x, std::ptrdiff_t x_stride, int part,
                                        IntStrip<A> (&c)[MR]) {
    Reg sum[MR], raise = R::zero();
    BANTAM_UNROLL for (int m = 0; m < MR; ++m) sum[m] = c[m].part[part];
    BANTAM_UNROLL for (int i = 0; i < 4; ++i) {
      const Reg columns = Unpack::columns_of(p, i);
      const Reg w = Unpack::kept_codes(plane, p, i);
      R::dp(raise, R::bytes(128), w);
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) R::dp(sum[m], R::look_up(Unpack::raised_table(x + m * x_stride + i / 2 * 16), columns), w);
    }
    BANTAM_UNROLL for (int m = 0; m < MR; ++m) c[m].part[part] = R::sub32(sum[m], raise);
  }

  template <class Plane, int Columns, int NR, int MR>
  static BANTAM_INLINE void whole_codes(const std::uint8_t* unit, std::ptrdiff_t plane_stride, const std::int8_t* x, std::ptrdiff_t x_stride,
                                        [[maybe_unused]] int first, const std::int8_t* lut, IntStrip<A> (&c)[NR][MR]) {
    Reg even[NR][MR][parts];
    Reg odd[NR][MR][parts];  // a second chain for a single token: the latency of one product is four cycles
    BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
        BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
          even[r][m][part] = c[r][m].part[part];
          odd[r][m][part] = R::zero();
        }
      }
    }
    [[maybe_unused]] Reg table = even[0][0][0];
    if constexpr (std::is_same_v<Plane, Codebook>) table = R::flip(R::table(lut), R::bytes(128));
    if constexpr (std::is_same_v<Plane, Bytes> || std::is_same_v<Plane, Codebook> || std::is_same_v<Plane, Codes<4>>) {
      static_assert(Columns == 32 || !std::is_same_v<Plane, Bytes>);
      // Pointers that move, no index: general registers that overflow are spilled into vector registers, which spill then.
      constexpr int line_bytes = std::is_same_v<Plane, Bytes> ? 128 : 64;
      if constexpr (Columns == 16) unit += first / 2 * 64;
      const std::int8_t* const end = x + Columns;
#pragma GCC unroll 1
      for (; x != end; x += 8, unit += line_bytes) {
        BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
          Reg w0[NR];
          Reg w1[NR];
          BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
            const Reg q = R::load(unit + r * plane_stride + part * width);
            if constexpr (std::is_same_v<Plane, Bytes>) {
              w0[r] = R::flip(q, R::bytes(128));
              w1[r] = R::flip(R::load(unit + r * plane_stride + 64 + part * width), R::bytes(128));
            } else {
              w0[r] = R::both(q, R::bytes(15));
              w1[r] = R::both(R::right(q, 4), R::bytes(15));
              if constexpr (std::is_same_v<Plane, Codebook>) {
                w0[r] = R::look_up(table, w0[r]);
                w1[r] = R::look_up(table, w1[r]);
              }
            }
          }
          multiply(w0, w1, x, x_stride, part, even, odd);
        }
      }
    } else if constexpr (is_trellis<Plane>) {
      const Reg levels = R::flip(R::table(trellis_level), R::bytes(128)), offsets = R::table(trellis_offset);
      BANTAM_UNROLL for (int i = 0; i < Columns / 4; i += 2) {
        BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
          Reg w0[NR];
          Reg w1[NR];
          BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
            const std::uint8_t* p = unit + r * plane_stride + part * width;
            w0[r] = Unpack::weights(Plane{}, p, first != 0, i, levels, offsets);
            w1[r] = Unpack::weights(Plane{}, p, first != 0, i + 1, levels, offsets);
          }
          multiply(w0, w1, x + i * 4, x_stride, part, even, odd);
        }
      }
    } else {
      BANTAM_UNROLL for (int i = 0; i < Columns / 4; i += 2) {
        BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
          Reg w0[NR];
          Reg w1[NR];
          BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
            w0[r] = Unpack::four(Plane{}, unit + r * plane_stride + part * width, first, i);
            w1[r] = Unpack::four(Plane{}, unit + r * plane_stride + part * width, first, i + 1);
          }
          multiply(w0, w1, x + i * 4, x_stride, part, even, odd);
        }
      }
    }
    BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
        BANTAM_UNROLL for (int part = 0; part < parts; ++part) {
          c[r][m].part[part] = MR == 1 ? R::add32(even[r][m][part], odd[r][m][part]) : even[r][m][part];
        }
      }
    }
  }

  /// Eight columns of every strip and token.
  template <int NR, int MR>
  static BANTAM_INLINE void multiply(const Reg (&w0)[NR], const Reg (&w1)[NR], const std::int8_t* x, std::ptrdiff_t x_stride,
                                     int part, Reg (&even)[NR][MR][parts], Reg (&odd)[NR][MR][parts]) {
    BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
      const Reg b = R::broadcast(x + m * x_stride);
      BANTAM_UNROLL for (int r = 0; r < NR; ++r) R::dp(even[r][m][part], w0[r], b);
    }
    BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
      const Reg b = R::broadcast(x + m * x_stride + 4);
      BANTAM_UNROLL for (int r = 0; r < NR; ++r) R::dp(MR == 1 ? odd[r][m][part] : even[r][m][part], w1[r], b);
    }
  }
};

}  // namespace bantam::inline v0::simd
