// AMX: registers of 16 rows by 64 bytes, and an instruction that multiplies two of them.
#pragma once

#include <cstdint>

#include "bantam/simd/zmm.hpp"

namespace bantam::inline v0::simd {

/// The eight tile registers while they are in use. Registers 0 to 3 hold sums, (16 tokens, 16 channels) int32; 4 and 5 activations,
/// (16 tokens, columns) signed bytes; 6 and 7 weights, (columns / 4, 16 channels, 4) signed bytes. Columns are 16, 32 or 64.
template <class A>
class Tiles;

#if !defined(BANTAM_AMX_EMULATED)
// In assembly: gcc 12's intrinsics do not say that they read memory. What is stored before must be there, so all say "memory".
template <>
class Tiles<amx> {
 public:
  using Registers = Zmm;

  explicit Tiles(int columns) noexcept {
    struct alignas(64) {
      std::uint8_t palette = 1, start = 0, none[14] = {};
      std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } shape;
    static_assert(sizeof shape == 64);
    shape.bytes[4] = shape.bytes[5] = static_cast<std::uint16_t>(columns);
    shape.rows[6] = shape.rows[7] = static_cast<std::uint8_t>(columns / 4);
    __asm__ volatile("ldtilecfg %0" : : "m"(shape));
  }
  ~Tiles() { __asm__ volatile("tilerelease"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  template <int R>
  BANTAM_INLINE void zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(R));
  }
  /// Rows are `stride` bytes apart.
  template <int R>
  BANTAM_INLINE void load(const std::int8_t* p, std::int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(R) : "memory");
  }
  template <int Sums, int X, int W>
  BANTAM_INLINE void multiply() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(X), "i"(W));
  }
  template <int R>
  BANTAM_INLINE void store(std::int32_t* p) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(std::int64_t{64}), "i"(R) : "memory");
  }
};
#else
/// The same in plain C++, to be tested where there is no AMX.
template <>
class Tiles<amx> {
 public:
  using Registers = Zmm;

  explicit Tiles(int columns) noexcept : columns_(columns) {}
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  template <int R>
  void zero() {
    __builtin_memset(tile_[R], 0, sizeof tile_[R]);
  }
  template <int R>
  void load(const std::int8_t* p, std::int64_t stride) {
    const int rows = R < 6 ? 16 : columns_ / 4, bytes = R < 6 ? columns_ : 64;
    for (int row = 0; row < rows; ++row) __builtin_memcpy(tile_[R] + row * 64, p + row * stride, static_cast<std::size_t>(bytes));
  }
  template <int Sums, int X, int W>
  void multiply() {
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 16; ++n) {
        std::int32_t sum;
        __builtin_memcpy(&sum, tile_[Sums] + m * 64 + n * 4, 4);
        for (int k = 0; k < columns_; ++k) sum += tile_[X][m * 64 + k] * tile_[W][k / 4 * 64 + n * 4 + k % 4];
        __builtin_memcpy(tile_[Sums] + m * 64 + n * 4, &sum, 4);
      }
    }
  }
  template <int R>
  void store(std::int32_t* p) {
    __builtin_memcpy(p, tile_[R], sizeof tile_[R]);
  }

 private:
  int columns_;
  std::int8_t tile_[8][16 * 64] = {};
};
#endif

}  // namespace bantam::inline v0::simd
