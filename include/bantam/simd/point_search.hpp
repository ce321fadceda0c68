// What a search among points asks of an instruction set (simd/nearest_point.hpp).
#pragma once

namespace bantam::inline v0::simd {

/// Points and what is to be near one of them.
struct PointSearch {
  const float* points = nullptr;  ///< (dims, count)
  int dims = 8;                   ///< 4 or 8
  int count = 0;                  ///< a multiple of 16, at most 2^24
  const float* target = nullptr;  ///< (dims)
  const float* factor = nullptr;  ///< F, (dims, dims), lower triangular: an error e costs |F e|^2. Null:
  const float* weights = nullptr;  ///< (dims): what the square of each error costs
};

/// The number of the nearest point, on one instruction set.
using NearestPoint = int (*)(const PointSearch& search) noexcept;

}  // namespace bantam::inline v0::simd
