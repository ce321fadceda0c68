// Dense tensors: Tensor owns, TensorView borrows; element type, constness and rank are part of the type.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "bantam/core/error.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/tensor/shape.hpp"

namespace bantam::inline v0 {

/// Borrowed elements of any strides. `T` is const for views that may not write. Never owns; cheap to copy.
template <class T, int Rank>
class TensorView {
  static_assert(Rank >= 1);

 public:
  using value_type = std::remove_const_t<T>;

  TensorView() = default;
  /// Contiguous, row-major.
  TensorView(T* data, const Shape<Rank>& shape) noexcept : TensorView(data, shape, row_major_strides(shape)) {}
  /// Strides in elements.
  TensorView(T* data, const Shape<Rank>& shape, const Shape<Rank>& strides) noexcept
      : data_(data), shape_(shape), strides_(strides) {}
  /// A writable view reads as well.
  operator TensorView<const T, Rank>() const noexcept
    requires(!std::is_const_v<T>)
  {
    return {data_, shape_, strides_};
  }

  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] const Shape<Rank>& shape() const noexcept { return shape_; }
  [[nodiscard]] const Shape<Rank>& strides() const noexcept { return strides_; }
  [[nodiscard]] std::int64_t extent(int axis) const noexcept { return shape_[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] std::int64_t stride(int axis) const noexcept { return strides_[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] std::int64_t size() const noexcept { return element_count(shape_); }
  /// Whether the elements lie one after another in row-major order. Strides of axes of one element do not matter.
  [[nodiscard]] bool contiguous() const noexcept {
    if (size() == 0) return true;
    const Shape<Rank> expected = row_major_strides(shape_);
    for (std::size_t i = 0; i < Rank; ++i) {
      if (shape_[i] != 1 && strides_[i] != expected[i]) return false;
    }
    return true;
  }

  /// Element access; as many indices as the rank.
  template <std::convertible_to<std::int64_t>... Index>
    requires(sizeof...(Index) == Rank)
  [[nodiscard]] T& operator()(Index... index) const noexcept {
    const std::array<std::int64_t, Rank> at{static_cast<std::int64_t>(index)...};
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < Rank; ++i) {
      BANTAM_ASSERT(at[i] >= 0 && at[i] < shape_[i]);
      offset += at[i] * strides_[i];
    }
    return data_[offset];
  }
  /// Row `i`: a view of one rank less, or the element of a rank-1 view.
  [[nodiscard]] decltype(auto) operator[](std::int64_t i) const noexcept {
    BANTAM_ASSERT(i >= 0 && i < shape_[0]);
    if constexpr (Rank == 1) {
      return static_cast<T&>(data_[i * strides_[0]]);
    } else {
      return TensorView<T, Rank - 1>(data_ + i * strides_[0], tail(shape_), tail(strides_));
    }
  }
  /// Elements begin .. end of one axis, without a copy. Throws invalid_argument outside the extent.
  [[nodiscard]] TensorView slice(int axis, std::int64_t begin, std::int64_t end) const {
    if (axis < 0 || axis >= Rank || begin < 0 || end < begin || end > extent(axis)) {
      fail(Errc::invalid_argument, "slice: expected a part of axis ", axis, " of ", to_string(shape_), ", found ", begin, "..", end);
    }
    TensorView part = *this;
    part.data_ += begin * stride(axis);
    part.shape_[static_cast<std::size_t>(axis)] = end - begin;
    return part;
  }
  /// The axes in reverse order, without a copy.
  [[nodiscard]] TensorView transposed() const noexcept {
    TensorView other = *this;
    for (std::size_t i = 0; i < Rank; ++i) {
      other.shape_[i] = shape_[Rank - 1 - i];
      other.strides_[i] = strides_[Rank - 1 - i];
    }
    return other;
  }
  /// The elements as a span. Throws invalid_argument unless contiguous.
  [[nodiscard]] std::span<T> span() const {
    if (!contiguous()) fail(Errc::invalid_argument, "span: expected a contiguous view, found strides ", to_string(strides_));
    return {data_, static_cast<std::size_t>(size())};
  }

 private:
  T* data_ = nullptr;
  Shape<Rank> shape_{};
  Shape<Rank> strides_{};
};

/// Owned elements, row-major, 64-byte aligned, zeroed. Moves, leaving an empty tensor; copies are spelled clone().
template <class T, int Rank>
class Tensor {
 public:
  Tensor() = default;
  /// Throws invalid_argument for negative extents or a size that overflows, out_of_memory.
  explicit Tensor(const Shape<Rank>& shape)
      : shape_(shape), storage_(static_cast<std::size_t>(checked_element_count(shape))) {}

  Tensor(Tensor&& other) noexcept : shape_(std::exchange(other.shape_, {})), storage_(std::move(other.storage_)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    shape_ = std::exchange(other.shape_, {});
    storage_ = std::move(other.storage_);
    return *this;
  }

  [[nodiscard]] TensorView<T, Rank> view() noexcept { return {storage_.data(), shape_}; }
  [[nodiscard]] TensorView<const T, Rank> view() const noexcept { return {storage_.data(), shape_}; }
  operator TensorView<T, Rank>() noexcept { return view(); }
  operator TensorView<const T, Rank>() const noexcept { return view(); }

  [[nodiscard]] T* data() noexcept { return storage_.data(); }
  [[nodiscard]] const T* data() const noexcept { return storage_.data(); }
  [[nodiscard]] const Shape<Rank>& shape() const noexcept { return shape_; }
  [[nodiscard]] std::int64_t extent(int axis) const noexcept { return shape_[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(storage_.size()); }
  [[nodiscard]] std::span<T> span() noexcept { return {data(), storage_.size()}; }
  [[nodiscard]] std::span<const T> span() const noexcept { return {data(), storage_.size()}; }
  [[nodiscard]] decltype(auto) operator[](std::int64_t i) noexcept { return view()[i]; }
  [[nodiscard]] decltype(auto) operator[](std::int64_t i) const noexcept { return view()[i]; }
  template <std::convertible_to<std::int64_t>... Index>
  [[nodiscard]] T& operator()(Index... index) noexcept {
    return view()(index...);
  }
  template <std::convertible_to<std::int64_t>... Index>
  [[nodiscard]] const T& operator()(Index... index) const noexcept {
    return view()(index...);
  }

  [[nodiscard]] Tensor clone() const {
    Tensor copy(shape_);
    std::copy(storage_.begin(), storage_.end(), copy.storage_.begin());
    return copy;
  }

 private:
  Shape<Rank> shape_{};
  AlignedBuffer<T> storage_;
};

}  // namespace bantam::inline v0
