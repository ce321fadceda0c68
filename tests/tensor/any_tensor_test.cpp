// Tensors whose type is known at run time only.
#include "bantam/tensor/any_tensor.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "support.hpp"

using bantam::AnyTensor;
using bantam::DType;
using bantam::Tensor;

namespace {

template <class T, std::size_t N>
AnyTensor of(const std::array<T, N>& elements, DType dtype = bantam::dtype_of<T>) {
  auto bytes = bantam::allocate_storage(sizeof elements);
  std::memcpy(bytes.get(), elements.data(), sizeof elements);
  return {dtype, {static_cast<std::int64_t>(N)}, bytes};
}

std::vector<float> floats(const AnyTensor& tensor) {
  std::vector<float> out(static_cast<std::size_t>(tensor.size()));
  tensor.read_floats(0, out);
  return out;
}

}  // namespace

TEST_CASE("element types have the sizes and names that files know") {
  CHECK(bantam::element_bytes(DType::f32) == 4);
  CHECK(bantam::element_bytes(DType::bf16) == 2);
  CHECK(bantam::element_bytes(DType::i64) == 8);
  CHECK(bantam::element_bytes(DType::boolean) == 1);
  CHECK(bantam::to_string(DType::bf16) == "bf16");
  CHECK(bantam::to_string(DType::boolean) == "bool");
  for (int i = 0; i < bantam::dtype_count; ++i) {
    const auto type = static_cast<DType>(i);
    bantam::visit_dtype(type, [&](auto t) {
      CHECK(static_cast<std::int64_t>(sizeof(typename decltype(t)::type)) == bantam::element_bytes(type));
    });
  }
}

TEST_CASE("every element type converts to float") {
  using bantam::bf16;
  using bantam::f16;
  CHECK(floats(of<float>(std::array{1.5f, -2.0f})) == std::vector<float>{1.5f, -2.0f});
  CHECK(floats(of<double>(std::array{0.1, -1e300})) == std::vector<float>{0.1f, -std::numeric_limits<float>::infinity()});
  CHECK(floats(of<f16>(std::array{f16(0.5f), f16(-65504.0f)})) == std::vector<float>{0.5f, -65504.0f});
  CHECK(floats(of<bf16>(std::array{bf16(3.0f), bf16(-0.125f)})) == std::vector<float>{3.0f, -0.125f});
  CHECK(floats(of<std::int8_t>(std::array<std::int8_t, 2>{-128, 127})) == std::vector<float>{-128.0f, 127.0f});
  CHECK(floats(of<std::uint8_t>(std::array<std::uint8_t, 2>{0, 255})) == std::vector<float>{0.0f, 255.0f});
  CHECK(floats(of<std::int16_t>(std::array<std::int16_t, 1>{-32768})) == std::vector<float>{-32768.0f});
  CHECK(floats(of<std::int32_t>(std::array{1 << 30})) == std::vector<float>{0x1p30f});
  CHECK(floats(of<std::int64_t>(std::array{std::int64_t{-1} << 40})) == std::vector<float>{-0x1p40f});
  // Bytes from outside: anything but zero counts as true.
  CHECK(floats(of<std::uint8_t>(std::array<std::uint8_t, 3>{0, 1, 200}, DType::boolean)) == std::vector<float>{0.0f, 1.0f, 1.0f});
}

TEST_CASE("a tensor is taken over without copying, and copies share it") {
  Tensor<float, 2> tensor({2, 3});
  tensor(1, 2) = 9;
  const float* before = tensor.data();
  AnyTensor any(std::move(tensor));
  const AnyTensor copy = any;
  any = AnyTensor();
  const auto view = copy.as<float, 2>();
  CHECK(view.data() == before);
  CHECK(view(1, 2) == 9.0f);
  CHECK(copy.describe() == "f32 (2, 3)");
  CHECK(copy.bytes().size() == 24);
  CHECK(any.size() == 0);
}

TEST_CASE("a view is borrowed, of any element type") {
  Tensor<bantam::f16, 3> tensor({2, 2, 2});
  tensor(1, 1, 1) = bantam::f16(4.0f);
  const AnyTensor any = AnyTensor::borrow(tensor.view());
  CHECK(any.dtype() == DType::f16);
  CHECK(any.as<bantam::f16, 3>().data() == tensor.data());
  CHECK(any.to_floats<3>()(1, 1, 1) == 4.0f);
  CHECK(bantam::test::error_of([&] { (void)AnyTensor::borrow(tensor.view().transposed()); }) ==
        "span: expected a contiguous view, found strides (1, 2, 4)");
}

TEST_CASE("asking for another type, rank, place or size is refused in one clear line") {
  const AnyTensor any = of<float>(std::array{1.0f, 2.0f, 3.0f, 4.0f});
  CHECK(bantam::test::error_of([&] { (void)any.as<bantam::f16, 1>(); }) == "tensor: expected f16 of rank 1, found f32 (4)");
  CHECK(bantam::test::error_of([&] { (void)any.as<float, 2>(); }) == "tensor: expected f32 of rank 2, found f32 (4)");
  CHECK(bantam::test::error_of([&] { (void)any.to_floats<2>(); }) == "tensor: expected rank 2, found f32 (4)");
  std::vector<float> three(3);
  any.read_floats(1, three);
  CHECK(three == std::vector<float>{2.0f, 3.0f, 4.0f});
  CHECK(bantam::test::error_of([&] { any.read_floats(2, three); }) == "tensor: expected elements of f32 (4), found 2 and 3 from there");
  CHECK(bantam::test::error_of([&] { any.read_floats(-1, three); }) == "tensor: expected elements of f32 (4), found -1 and 3 from there");

  // Files may put floats anywhere: they convert, but cannot be looked at in place.
  auto bytes = bantam::allocate_storage(16);
  const float value = 2.5f;
  std::memcpy(bytes.get() + 1, &value, 4);
  const AnyTensor odd(DType::f32, {1}, std::shared_ptr<const std::byte>(bytes, bytes.get() + 1));
  CHECK(floats(odd) == std::vector<float>{2.5f});
  CHECK(bantam::test::error_of([&] { (void)odd.as<float, 1>(); }) ==
        "tensor: expected elements at a multiple of 4 bytes, found f32 (1) elsewhere");
}

TEST_CASE("shapes that overflow are refused, a tensor without axes holds one element") {
  const std::int64_t huge = std::int64_t{1} << 62;
  CHECK(bantam::test::error_of([&] { AnyTensor x(DType::f32, {huge}, nullptr); }) ==
        "tensor: expected a size that fits memory, found f32 (4611686018427387904)");
  CHECK(bantam::test::error_of([&] { AnyTensor x(DType::f32, {2, -3}, nullptr); }) ==
        "shape (2, -3): expected extents that are not negative and fit memory");
  const auto bytes = bantam::allocate_storage(4);
  const AnyTensor scalar(DType::i32, {}, bytes);
  CHECK(scalar.size() == 1);
  CHECK(floats(scalar) == std::vector<float>{0.0f});
}
