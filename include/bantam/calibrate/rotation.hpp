// Rotations: random ones spread what is large in few weights or inputs over all (QuaRot, arXiv:2404.00456), others are given.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0 {

/// The orthogonal matrix Q = D T of a size n = m 2^k, m odd: D random signs, T the Kronecker product of the Hartley matrix
/// of m, cos + sin of 2 pi i j / m, and of the Hadamard matrix of 2^k, over sqrt(n). A randomized Hadamard matrix where n is a
/// power of two, and nearly as even elsewhere: no entry is above sqrt(2 / n). T is symmetric. Applied in n (k + m) steps, in
/// double precision.
class Rotation {
 public:
  /// Memory: 8 (n + m) bytes. Throws invalid_argument unless `size` is at least 1.
  Rotation(std::int64_t size, std::uint64_t seed);
  /// Any other: the rows are Q's columns, the axes that numbers are taken along, (n, n) and orthogonal. Applied in n^2 steps, in
  /// single precision. Throws invalid_argument unless square.
  explicit Rotation(Tensor<float, 2> axes);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// x becomes x Q. x: (size).
  void apply(std::span<double> x) const;
  /// The same with one rounding to f32 at the end.
  void apply(std::span<float> x) const;

  /// w becomes W Q, or W times a diagonal of Q's where rows are several times as long. w: (rows, multiple of size). What reads
  /// x Q then gives what it gave for x. On all cores.
  void rotate_columns(Tensor<float, 2>& w) const;
  /// w becomes QT W, or a diagonal of QT's times W. w: (multiple of size, columns). What it gives is then rotated as x Q.
  void rotate_rows(Tensor<float, 2>& w) const;

 private:
  std::int64_t size_;
  Tensor<float, 2> axes_;  ///< of a rotation that was given; else empty
  std::vector<double> signs_;
  std::vector<double> hartley_;  ///< its entry (i, j) at i j mod m
};

}  // namespace bantam::inline v0
