// Tensors and views.
#include "bantam/tensor/tensor.hpp"

#include <limits>
#include <type_traits>

#include "bantam/tensor/random.hpp"
#include "support.hpp"

using bantam::Tensor;
using bantam::TensorView;

namespace {

/// Elements 0, 1, 2, ... in row-major order.
template <int Rank>
Tensor<int, Rank> counted(const bantam::Shape<Rank>& shape) {
  Tensor<int, Rank> tensor(shape);
  int next = 0;
  for (int& x : tensor.span()) x = next++;
  return tensor;
}

}  // namespace

TEST_CASE("a new tensor is zeroed, aligned and row-major") {
  Tensor<float, 3> x({2, 3, 5});
  CHECK(x.size() == 30);
  CHECK(reinterpret_cast<std::uintptr_t>(x.data()) % 64 == 0);
  for (const float v : x.span()) CHECK(v == 0.0f);
  CHECK(x.view().strides() == bantam::Shape<3>{15, 5, 1});
  x(1, 2, 4) = 7;
  CHECK(x.data()[29] == 7.0f);
}

TEST_CASE("indexing, rows and slices reach the same elements without copies") {
  const Tensor<int, 3> x = counted<3>({4, 3, 5});
  const auto part = x.view().slice(0, 1, 3).slice(2, 2, 5);
  CHECK(part.shape() == bantam::Shape<3>{2, 3, 3});
  CHECK(part.strides() == bantam::Shape<3>{15, 5, 1});
  CHECK_FALSE(part.contiguous());
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 3; ++k) {
        CHECK(&part(i, j, k) == &x(i + 1, j, k + 2));
        CHECK(&part[i][j][k] == &part(i, j, k));
      }
    }
  }
}

TEST_CASE("transposing reverses the axes without a copy") {
  const Tensor<int, 3> x = counted<3>({2, 3, 5});
  const auto t = x.view().transposed();
  CHECK(t.shape() == bantam::Shape<3>{5, 3, 2});
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 5; ++k) CHECK(&t(k, j, i) == &x(i, j, k));
    }
  }
  CHECK(t.transposed().contiguous());
  CHECK(t.transposed().shape() == x.shape());
}

TEST_CASE("writing through a view changes the tensor") {
  Tensor<int, 2> x = counted<2>({3, 4});
  x.view().slice(1, 1, 2)[2][0] = 99;
  CHECK(x(2, 1) == 99);
  x[0][3] = -1;
  CHECK(x(0, 3) == -1);
}

TEST_CASE("constness is part of the type and converts one way") {
  static_assert(std::is_convertible_v<TensorView<float, 2>, TensorView<const float, 2>>);
  static_assert(!std::is_convertible_v<TensorView<const float, 2>, TensorView<float, 2>>);
  static_assert(!std::is_convertible_v<TensorView<float, 2>, TensorView<float, 3>>);
  static_assert(std::is_convertible_v<Tensor<float, 2>&, TensorView<float, 2>>);
  static_assert(std::is_convertible_v<const Tensor<float, 2>&, TensorView<const float, 2>>);
  static_assert(!std::is_convertible_v<const Tensor<float, 2>&, TensorView<float, 2>>);
  static_assert(!std::is_copy_constructible_v<Tensor<float, 2>>);
  static_assert(std::is_same_v<decltype(std::declval<const Tensor<float, 1>&>()[0]), const float&>);
  static_assert(std::is_trivially_copyable_v<TensorView<float, 2>>);
  Tensor<int, 2> x = counted<2>({2, 2});
  const TensorView<const int, 2> view = x;
  CHECK(view.data() == x.data());
}

TEST_CASE("contiguous means what memory looks like, whatever strides of single elements say") {
  const Tensor<int, 2> x = counted<2>({4, 6});
  CHECK(x.view().contiguous());
  CHECK(x.view().slice(0, 1, 3).contiguous());
  CHECK_FALSE(x.view().slice(1, 0, 3).contiguous());
  CHECK_FALSE(x.view().transposed().contiguous());
  CHECK(x.view().slice(0, 2, 3).slice(1, 1, 4).contiguous());
  CHECK(x.view().slice(0, 1, 2).transposed().contiguous());
  CHECK(x.view().slice(1, 3, 3).contiguous());
  CHECK(x.view().slice(0, 2, 3).slice(1, 1, 4).span()[2] == 15);
  CHECK(bantam::test::error_of([&] { (void)x.view().transposed().span(); }) ==
        "span: expected a contiguous view, found strides (1, 6)");
}

TEST_CASE("slices outside of a view are refused") {
  const Tensor<int, 2> x = counted<2>({4, 6});
  const auto slice = [&](int axis, std::int64_t begin, std::int64_t end) {
    return bantam::test::error_of([&] { (void)x.view().slice(axis, begin, end); });
  };
  CHECK(slice(0, 0, 5) == "slice: expected a part of axis 0 of (4, 6), found 0..5");
  CHECK(slice(1, -1, 2) == "slice: expected a part of axis 1 of (4, 6), found -1..2");
  CHECK(slice(1, 3, 2) == "slice: expected a part of axis 1 of (4, 6), found 3..2");
  CHECK(slice(2, 0, 1) == "slice: expected a part of axis 2 of (4, 6), found 0..1");
  CHECK(slice(-1, 0, 1) == "slice: expected a part of axis -1 of (4, 6), found 0..1");
  CHECK(x.view().slice(0, 4, 4).size() == 0);
}

TEST_CASE("shapes that overflow or are negative are refused, empty ones are fine") {
  const std::int64_t huge = std::int64_t{1} << 40;
  CHECK(bantam::test::error_of([&] { Tensor<float, 2> x({huge, huge}); }) ==
        "shape (1099511627776, 1099511627776): expected extents that are not negative and fit memory");
  CHECK(bantam::test::error_of([&] { Tensor<float, 3> x({0, huge, huge}); }) ==
        "shape (0, 1099511627776, 1099511627776): expected extents that are not negative and fit memory");
  CHECK(bantam::test::error_of([&] { Tensor<float, 2> x({3, -1}); }) ==
        "shape (3, -1): expected extents that are not negative and fit memory");
  // Counts fit, bytes do not.
  CHECK(bantam::test::error_of([&] { Tensor<double, 1> x({std::numeric_limits<std::int64_t>::max() / 2}); }).starts_with("memory: "));
  const Tensor<float, 2> empty({0, 5});
  CHECK(empty.size() == 0);
  CHECK(empty.span().empty());
}

TEST_CASE("a tensor moves, leaving an empty one, and clones deeply") {
  Tensor<int, 2> x = counted<2>({2, 3});
  const Tensor<int, 2> copy = x.clone();
  Tensor<int, 2> y = std::move(x);
  y(0, 0) = 42;
  CHECK(copy(0, 0) == 0);
  CHECK(copy(1, 2) == 5);
  CHECK(x.size() == 0);
  CHECK(x.shape() == bantam::Shape<2>{0, 0});
  x = std::move(y);
  CHECK(x(0, 0) == 42);
  CHECK(y.view().size() == 0);
}

TEST_CASE("random tensors depend on the seed alone") {
  const auto a = bantam::random::normal<float>({3, 1000}, 7);
  const auto b = bantam::random::normal<float>({3000}, 7);
  const auto c = bantam::random::normal<float>({3000}, 8);
  CHECK(std::equal(a.span().begin(), a.span().end(), b.span().begin()));
  CHECK_FALSE(std::equal(b.span().begin(), b.span().end(), c.span().begin()));
  double sum = 0;
  double squares = 0;
  for (const float x : a.span()) {
    sum += x;
    squares += static_cast<double>(x) * x;
  }
  // Five standard errors.
  CHECK(std::fabs(sum / 3000) < 5 / std::sqrt(3000.0));
  CHECK(std::fabs(squares / 3000 - 1) < 5 * std::sqrt(2 / 3000.0));
  const auto u = bantam::random::uniform<bantam::f16>({500}, 1, {.low = -2, .high = 3});
  for (const bantam::f16 x : u.span()) CHECK((float(x) >= -2.0f && float(x) <= 3.0f));
  const auto wide = bantam::random::normal<double>({1000}, 3, {.mean = 100, .deviation = 0.5});
  for (const double x : wide.span()) CHECK(std::fabs(x - 100) < 3);
}
