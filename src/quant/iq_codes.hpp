// The types of GGUF files whose codes are entries of a grid, four or eight weights each: as formats to round to.
#pragma once

#include <span>

#include "bantam/quant/format_info.hpp"

namespace bantam::inline v0::iq {

/// Which signs the weights of a vector can have.
enum class Signs : std::uint8_t {
  grid,  ///< those of the grid's entries
  free,
  even,  ///< an even number of eight is negative
};

/// Who has a shift of its own, an eighth of the scale up or down.
enum class Shift : std::uint8_t { nobody, group, vector };

/// What tells a type from the others. Scales are odd multiples of one f16 for 256 columns.
struct Type {
  int group;    ///< columns with a scale
  int columns;  ///< of a vector, whose codes are chosen together
  int dims;     ///< of an entry of the grid; a vector has one or two
  int count;    ///< entries
  const float* points;           ///< (dims, count), what entries stand for under a scale of 1
  const std::uint16_t* entries;  ///< their digits, `bits` each, the first lowest
  int bits;
  const float* level;            ///< what digits stand for
  int levels;
  Signs signs;
  Shift shift;
  int scales;  ///< 1, 3, ... 2 scales - 1 times the f16
  /// Scales that are tried, in parts of the group's largest weight.
  float least, most;
  int tries;
};

/// An entry's weights with their signs, under a scale of 1, and which they are.
struct Vector {
  int entries[2] = {};
  unsigned negative = 0;  ///< a bit a weight
  bool less = false;      ///< shifted down
  float levels[8] = {};
};

/// The vector that is near `x`, (columns), in the metric: the nearest of all with its signs, and none with one or two other signs is nearer.
/// `less`: the group's shift.
[[nodiscard]] Vector nearest_vector(const Type& type, simd::NearestPoint nearest_point, const float* x, const VectorMetric& metric, bool less) noexcept;

/// Chooses the scales (and shifts) of a block of up to 256 columns. `importance`: of columns, or empty.
void fit_block(const Type& type, simd::NearestPoint nearest_point, std::span<const float> weights, std::span<const float> importance,
               std::span<GroupSide> sides) noexcept;

/// Gives a group the scale that is nearest to so many times its block's.
void set_number(const Type& type, GroupSide& side, float multiple) noexcept;

/// Codes of Iq2, Iq3S and Iq3Xxs.
void put_codes(const Type& type, const Vector& vector, std::int8_t* codes) noexcept;

}  // namespace bantam::inline v0::iq
