// The directions that matter most to those who read a vector.
#pragma once

#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0 {

/// Orthogonal axes, the rows of (n, n), that which matters most first: the eigenvectors of H^1/2 G H^1/2, where H and G, (n, n),
/// are the second moments of vectors and of the directions that their readers answer to. Where both have the same
/// eigenvectors, an axis is worth the product of the two moments along it, which is what its loss costs; what no vector has, or no reader
/// sees, comes last. About 30 n^3 operations in double precision on one core, and 60 n^2 bytes. Throws corrupt where
/// moments are not finite.
[[nodiscard]] Tensor<float, 2> principal_axes(const Tensor<double, 2>& vectors, const Tensor<double, 2>& responses);

}  // namespace bantam::inline v0
