// The instruction sets that kernels are compiled for. A tag names one; its primitives lie in the header of its name.
#pragma once

namespace bantam::inline v0::simd {

/// Plain C++: runs anywhere and defines what every other table must compute.
struct generic {
  static constexpr const char* name = "generic";
};
/// AVX2 with FMA and F16C (Intel since 2013, AMD since 2015).
struct avx2 {
  static constexpr const char* name = "avx2";
};
/// AVX2 and AVX-VNNI (Alder Lake and later, without AVX-512).
struct avx2vnni {
  static constexpr const char* name = "avx2vnni";
};
/// AVX-512 F/BW/CD/DQ/VL (Skylake-X).
struct avx512 {
  static constexpr const char* name = "avx512";
};
/// AVX-512 F/BW/CD/DQ/VL with VNNI and VBMI (Ice Lake, Zen 4 and later).
struct avx512vnni {
  static constexpr const char* name = "avx512vnni";
};
/// The same with tiles of int8 products (AMX: Sapphire Rapids and later).
struct amx {
  static constexpr const char* name = "amx";
};
/// 64-bit ARM's base instruction set (Raspberry Pi 3 and 4).
struct neon {
  static constexpr const char* name = "neon";
};
/// ARMv8.2 with the int8 dot product (Raspberry Pi 5, Apple, Graviton 2 and later).
struct dotprod {
  static constexpr const char* name = "dotprod";
};

}  // namespace bantam::inline v0::simd

/// Kernels call these inside their innermost loops: a call that is not inlined spills every accumulator.
#define BANTAM_INLINE inline __attribute__((always_inline))
/// Loops over the registers of a tile must vanish: an array indexed at run time lives in memory. Not in sanitizer
/// builds, whose checks would be multiplied: the generic table alone took over five minutes to compile.
#if defined(BANTAM_CHECKED)
#define BANTAM_UNROLL
#else
#define BANTAM_UNROLL _Pragma("GCC unroll 16")
#endif
