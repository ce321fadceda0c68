// A dense tensor whose element type and rank are known at run time only: what files hold.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bantam/core/error.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/tensor/dtype.hpp"
#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0 {

/// Row-major elements that nobody changes; copies share them. They are owned, or kept alive by whoever gave them.
class AnyTensor {
 public:
  AnyTensor() = default;
  /// `data` holds the elements; the pointer's owner keeps them alive (memory, or a mapped file). Throws
  /// invalid_argument for negative extents or bytes that overflow. That `data` is long enough is the caller's promise.
  AnyTensor(DType dtype, std::vector<std::int64_t> shape, std::shared_ptr<const std::byte> data);
  /// Takes a tensor over without copying its elements.
  template <class T, int Rank>
  explicit AnyTensor(Tensor<T, Rank>&& tensor);
  /// Elements that the caller keeps alive. Throws invalid_argument unless the view is contiguous.
  template <class T, int Rank>
  [[nodiscard]] static AnyTensor borrow(TensorView<T, Rank> view);

  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept { return shape_; }
  [[nodiscard]] int rank() const noexcept { return static_cast<int>(shape_.size()); }
  [[nodiscard]] std::int64_t size() const noexcept { return data_ == nullptr ? 0 : element_count(shape_); }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {data_.get(), static_cast<std::size_t>(size() * element_bytes(dtype_))};
  }
  /// "f16 (8, 1024)"
  [[nodiscard]] std::string describe() const { return message(to_string(dtype_), " ", to_string(shape())); }

  /// The elements as they are; bool is read as std::uint8_t. Throws invalid_argument unless type and rank are the
  /// tensor's own and the elements are aligned for T.
  template <class T, int Rank>
  [[nodiscard]] TensorView<const T, Rank> as() const;

  /// Elements first .. first + out.size(), in row-major order, converted to float; of any alignment. Throws
  /// invalid_argument outside the tensor.
  void read_floats(std::int64_t first, std::span<float> out) const;
  /// All elements converted to float. Throws invalid_argument for another rank.
  template <int Rank>
  [[nodiscard]] Tensor<float, Rank> to_floats() const;

 private:
  template <int Rank>
  [[nodiscard]] Shape<Rank> shape_of_rank() const {
    Shape<Rank> shape{};
    std::copy(shape_.begin(), shape_.end(), shape.begin());
    return shape;
  }

  DType dtype_ = DType::f32;
  std::vector<std::int64_t> shape_;
  std::shared_ptr<const std::byte> data_;
};

inline AnyTensor::AnyTensor(DType dtype, std::vector<std::int64_t> shape, std::shared_ptr<const std::byte> data)
    : dtype_(dtype), shape_(std::move(shape)), data_(std::move(data)) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(checked_element_count(shape_), element_bytes(dtype_), &bytes)) {
    fail(Errc::invalid_argument, "tensor: expected a size that fits memory, found ", describe());
  }
}

template <class T, int Rank>
AnyTensor::AnyTensor(Tensor<T, Rank>&& tensor) : dtype_(dtype_of<T>) {
  const auto kept = std::make_shared<const Tensor<T, Rank>>(std::move(tensor));
  shape_.assign(kept->shape().begin(), kept->shape().end());
  data_ = {kept, reinterpret_cast<const std::byte*>(kept->data())};
}

template <class T, int Rank>
AnyTensor AnyTensor::borrow(TensorView<T, Rank> view) {
  const auto elements = view.span();
  const std::vector<std::int64_t> shape(view.shape().begin(), view.shape().end());
  // Shares ownership of nothing.
  return {dtype_of<T>, shape, std::shared_ptr<const std::byte>(std::shared_ptr<void>(), reinterpret_cast<const std::byte*>(elements.data()))};
}

template <class T, int Rank>
TensorView<const T, Rank> AnyTensor::as() const {
  const bool same_type = dtype_ == dtype_of<T> || (dtype_ == DType::boolean && std::is_same_v<T, std::uint8_t>);
  if (!same_type || rank() != Rank) {
    fail(Errc::invalid_argument, "tensor: expected ", to_string(dtype_of<T>), " of rank ", Rank, ", found ", describe());
  }
  if (reinterpret_cast<std::uintptr_t>(data_.get()) % alignof(T) != 0) {
    fail(Errc::invalid_argument, "tensor: expected elements at a multiple of ", alignof(T), " bytes, found ", describe(), " elsewhere");
  }
  return {reinterpret_cast<const T*>(data_.get()), shape_of_rank<Rank>()};
}

inline void AnyTensor::read_floats(std::int64_t first, std::span<float> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (first < 0 || count > size() || first > size() - count) {
    fail(Errc::invalid_argument, "tensor: expected elements of ", describe(), ", found ", first, " and ", count, " from there");
  }
  visit_dtype(dtype_, [&](auto type) {
    using T = typename decltype(type)::type;
    const std::byte* from = data_.get() + first * element_bytes(dtype_);
    for (float& x : out) {
      T element;
      std::memcpy(&element, from, sizeof element);
      from += sizeof element;
      if (dtype_ == DType::boolean) {
        x = element == T{} ? 0.0f : 1.0f;
      } else {
        x = static_cast<float>(element);
      }
    }
  });
}

template <int Rank>
Tensor<float, Rank> AnyTensor::to_floats() const {
  if (rank() != Rank) fail(Errc::invalid_argument, "tensor: expected rank ", Rank, ", found ", describe());
  Tensor<float, Rank> out(shape_of_rank<Rank>());
  read_floats(0, out.span());
  return out;
}

}  // namespace bantam::inline v0
