// The opt-in mapping to Eigen.
#include "bantam/interop/eigen.hpp"

#include <type_traits>

#include "bantam/tensor/random.hpp"
#include "support.hpp"

using bantam::from_eigen;
using bantam::Tensor;
using bantam::TensorView;
using bantam::to_eigen;

TEST_CASE("a view of rank 2 is an Eigen matrix over the same elements") {
  const auto a = bantam::random::normal<float>({4, 6}, 1);
  const auto b = bantam::random::normal<float>({6, 3}, 2);
  Tensor<float, 2> c({4, 3});
  to_eigen(c.view()) = to_eigen(a.view()) * to_eigen(b.view());
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 3; ++j) {
      double sum = 0;
      for (int k = 0; k < 6; ++k) sum += static_cast<double>(a(i, k)) * static_cast<double>(b(k, j));
      // Six products of normal numbers in single precision.
      CHECK(c(i, j) == doctest::Approx(sum).epsilon(1e-5));
    }
  }
  CHECK(to_eigen(a.view()).data() == a.data());
}

TEST_CASE("strides carry over: slices and transposed views") {
  Tensor<double, 2> x({5, 7});
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 7; ++j) x(i, j) = 10 * i + j;
  }
  const auto part = x.view().slice(0, 1, 4).slice(1, 2, 6);
  auto map = to_eigen(part);
  auto turned = to_eigen(part.transposed());
  CHECK(map.rows() == 3);
  CHECK(map.cols() == 4);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) {
      CHECK(map(i, j) == 10 * (i + 1) + j + 2);
      CHECK(turned(j, i) == map(i, j));
    }
  }
  map(2, 3) = -1;
  CHECK(x(3, 5) == -1);
  const auto column = to_eigen(x.view().slice(1, 6, 7).transposed()[0]);
  CHECK(column.size() == 5);
  CHECK(column(4) == 46);
  CHECK(column.innerStride() == 7);
}

TEST_CASE("constant elements stay constant both ways") {
  static_assert(!std::is_assignable_v<decltype(to_eigen(std::declval<TensorView<const float, 2>>())(0, 0)), float>);
  static_assert(std::is_assignable_v<decltype(to_eigen(std::declval<TensorView<float, 2>>()).coeffRef(0, 0)), float>);
  static_assert(std::is_same_v<decltype(from_eigen(std::declval<const Eigen::MatrixXf&>())), TensorView<const float, 2>>);
  static_assert(std::is_same_v<decltype(from_eigen(std::declval<Eigen::MatrixXf&>())), TensorView<float, 2>>);
  static_assert(std::is_same_v<decltype(from_eigen(std::declval<Eigen::Map<const Eigen::VectorXd>&>())), TensorView<const double, 1>>);
  CHECK(true);
}

TEST_CASE("Eigen matrices of both orders, vectors and blocks are views") {
  Eigen::MatrixXf columns(3, 4);  // column-major
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows(3, 4);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) columns(i, j) = rows(i, j) = static_cast<float>(10 * i + j);
  }
  const auto a = from_eigen(columns);
  const auto b = from_eigen(rows);
  CHECK(a.strides() == bantam::Shape<2>{1, 3});
  CHECK(b.contiguous());
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) {
      CHECK(&a(i, j) == &columns(i, j));
      CHECK(&b(i, j) == &rows(i, j));
    }
  }
  auto block = rows.block(1, 1, 2, 3);
  const auto c = from_eigen(block);
  CHECK(c.shape() == bantam::Shape<2>{2, 3});
  CHECK(&c(1, 2) == &rows(2, 3));
  auto row = columns.row(2);
  const auto d = from_eigen(row);
  CHECK(d.shape() == bantam::Shape<1>{4});
  CHECK(&d[3] == &columns(2, 3));
}

TEST_CASE("a view goes to Eigen and back unchanged") {
  Tensor<float, 2> x({6, 8});
  const auto part = x.view().slice(1, 2, 5).transposed();
  auto map = to_eigen(part);
  const auto back = from_eigen(map);
  CHECK(back.data() == part.data());
  CHECK(back.shape() == part.shape());
  CHECK(back.strides() == part.strides());
}
