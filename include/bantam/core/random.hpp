// A small random generator whose numbers are the same on every machine.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

/// xoshiro256** (Blackman and Vigna, arXiv:1805.01407), its 256 bits of state filled by splitmix64 from the seed.
/// Every seed is good, 0 included. The same seed gives the same bytes for any compiler, ISA and C library.
/// Not for secrets. One object belongs to one thread.
class Random {
 public:
  using State = std::array<std::uint64_t, 4>;

  explicit Random(std::uint64_t seed = 0) noexcept {
    for (std::uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15U;
      std::uint64_t mixed = seed;
      mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
      mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
      word = mixed ^ (mixed >> 31);
    }
  }

  /// 64 uniform bits.
  [[nodiscard]] std::uint64_t next() noexcept {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// A multiple of 2^-53 in [0, 1).
  [[nodiscard]] double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// A standard normal number, by the polar method (Marsaglia and Bray 1964). The second number of each pair is
  /// dropped, so that the four words are the whole state.
  [[nodiscard]] double normal() noexcept {
    while (true) {
      const double x = 2.0 * uniform() - 1.0;
      const double y = 2.0 * uniform() - 1.0;
      const double square = std::fma(x, x, y * y);
      if (square <= 0.0 || square >= 1.0) continue;
      // As fma, for a plain product could be fused into whatever the caller adds to it.
      return std::fma(x, std::sqrt(-2.0 * logarithm(square) / square), 0.0);
    }
  }

  /// The generator's whole state, to go on later exactly here.
  [[nodiscard]] const State& state() const noexcept { return state_; }

  /// Goes on from a saved state. Throws corrupt for all zeros, which the generator never reaches nor leaves.
  [[nodiscard]] static Random from_state(const State& state) {
    if (state == State{}) fail(Errc::corrupt, "random state: expected a bit that is set, found all zeros");
    Random random;
    random.state_ = state;
    return random;
  }

 private:
  // C libraries disagree on log in the last bit, and compilers on where they fuse multiplications and additions. So:
  // own series, each fusion spelled out. Positive normal x only. ln m = 2 artanh((m - 1) / (m + 1)).
  static double logarithm(double x) noexcept {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    auto exponent = static_cast<int>(bits >> 52) - 1023;
    double mantissa = std::bit_cast<double>((bits & 0xfffffffffffffU) | 0x3ff0000000000000U);
    // Into [sqrt(1/2), sqrt(2)], so that the series' argument stays below 0.172.
    if (mantissa > 0x1.6a09e667f3bcdp0) {
      mantissa *= 0.5;
      exponent += 1;
    }
    const double t = (mantissa - 1.0) / (mantissa + 1.0);
    const double tt = t * t;
    // The first term left out, 0.172^22 / 23, is far below half a unit in the last place.
    double series = 1.0 / 21.0;
    for (int odd = 19; odd >= 1; odd -= 2) series = std::fma(series, tt, 1.0 / odd);
    return std::fma(static_cast<double>(exponent), 0x1.62e42fefa39efp-1, 2.0 * t * series);
  }

  State state_{};
};

}  // namespace bantam::inline v0
