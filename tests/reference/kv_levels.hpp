// Keys and values of 4 and 3 bits as docs/formats.md writes them down, in double precision.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace bantam::reference {

/// The levels of codes 0, 1, ...
inline std::vector<int> kv_levels(int bits) {
  std::vector<int> levels = bits == 4 ? std::vector{6, 18, 31, 44, 58, 75, 96, 127} : std::vector{13, 42, 77, 127};
  const std::size_t half = levels.size();
  for (std::size_t i = 0; i < half; ++i) levels.push_back(-levels[i]);
  return levels;
}

/// x in blocks, each times the Hadamard matrix of Sylvester over the root of its size.
inline std::vector<double> hadamard_rotated(const std::vector<double>& x, std::size_t block) {
  std::vector<double> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = i / block * block; j < i / block * block + block; ++j) out[i] += (std::popcount((i % block) & (j % block)) % 2 == 0 ? x[j] : -x[j]);
    out[i] /= std::sqrt(static_cast<double>(block));
  }
  return out;
}

/// What one head's page of 64 tokens holds. d: a multiple of 16.
struct KvPage {
  std::span<const std::byte> bytes;
  int bits;
  bool value;
  std::size_t d;

  [[nodiscard]] unsigned word(std::size_t at) const { return std::to_integer<unsigned>(bytes[2 * at]) | std::to_integer<unsigned>(bytes[2 * at + 1]) << 8; }
  [[nodiscard]] unsigned code(std::size_t token, std::size_t i) const {
    const auto b = static_cast<std::size_t>(bits);
    unsigned code = 0;
    for (std::size_t bit = 0; bit < b; ++bit) {
      if (value) {
        const std::size_t at = (token * d + i) * b + bit;
        code |= (std::to_integer<unsigned>(bytes[at / 8]) >> at % 8 & 1) << bit;
      } else {
        const std::size_t n = i % 16, per_word = 16 / b;
        const bool left = n >= per_word * b;  // of 3 bits the last, which is in the highest bits
        code |= (word((i / 16 * b + (left ? bit : n / per_word)) * 64 + token) >> (left ? 15 : n % per_word * b + bit) & 1) << bit;
      }
    }
    return code;
  }
  [[nodiscard]] double scale(std::size_t token, std::size_t i) const {
    const std::size_t groups = (d + 31) / 32, first = 64 * d * static_cast<std::size_t>(bits) / 16;
    return std::bit_cast<float>(word(first + (value ? token * groups + i / 32 : i / 32 * 64 + token)) << 16);
  }
  [[nodiscard]] double number(std::size_t token, std::size_t i) const { return scale(token, i) * kv_levels(bits)[code(token, i)]; }
};

/// The squared error of a group under a scale, each number at the level that is nearest.
inline double squared_error(std::span<const double> x, double scale, int bits) {
  double sum = 0;
  for (const double number : x) {
    double least = std::numeric_limits<double>::infinity();
    for (const int level : kv_levels(bits)) least = std::min(least, std::pow(number - scale * level, 2));
    sum += least;
  }
  return sum;
}

}  // namespace bantam::reference
