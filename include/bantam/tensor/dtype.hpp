// Element types of dense tensors as values, for tensors whose type is known at run time only.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "bantam/core/half.hpp"

namespace bantam::inline v0 {

/// Numbers, little-endian in files.
enum class DType : std::uint8_t { f32, f16, bf16, f64, i8, u8, i16, i32, i64, boolean };

inline constexpr int dtype_count = 10;

/// Bytes of one element.
[[nodiscard]] constexpr std::int64_t element_bytes(DType type) noexcept {
  constexpr std::int64_t bytes[dtype_count] = {4, 2, 2, 8, 1, 1, 2, 4, 8, 1};
  return bytes[static_cast<int>(type)];
}

/// "f32", "bool", ...
[[nodiscard]] constexpr std::string_view to_string(DType type) noexcept {
  constexpr std::string_view names[dtype_count] = {"f32", "f16", "bf16", "f64", "i8", "u8", "i16", "i32", "i64", "bool"};
  return names[static_cast<int>(type)];
}

namespace detail {

template <class T>
struct DTypeOf;
template <DType Type>
struct DTypeIs {
  static constexpr DType value = Type;
};
template <>
struct DTypeOf<float> : DTypeIs<DType::f32> {};
template <>
struct DTypeOf<f16> : DTypeIs<DType::f16> {};
template <>
struct DTypeOf<bf16> : DTypeIs<DType::bf16> {};
template <>
struct DTypeOf<double> : DTypeIs<DType::f64> {};
template <>
struct DTypeOf<std::int8_t> : DTypeIs<DType::i8> {};
template <>
struct DTypeOf<std::uint8_t> : DTypeIs<DType::u8> {};
template <>
struct DTypeOf<std::int16_t> : DTypeIs<DType::i16> {};
template <>
struct DTypeOf<std::int32_t> : DTypeIs<DType::i32> {};
template <>
struct DTypeOf<std::int64_t> : DTypeIs<DType::i64> {};

}  // namespace detail

/// The DType of a C++ type. Not for bool: bytes from outside may be neither true nor false, so they are read as u8.
template <class T>
inline constexpr DType dtype_of = detail::DTypeOf<std::remove_const_t<T>>::value;

/// Calls f(std::type_identity<T>{}) with the C++ type of `type` (u8 for bool).
template <class F>
constexpr decltype(auto) visit_dtype(DType type, F&& f) {
  switch (type) {
    case DType::f32: return f(std::type_identity<float>{});
    case DType::f16: return f(std::type_identity<f16>{});
    case DType::bf16: return f(std::type_identity<bf16>{});
    case DType::f64: return f(std::type_identity<double>{});
    case DType::i8: return f(std::type_identity<std::int8_t>{});
    case DType::i16: return f(std::type_identity<std::int16_t>{});
    case DType::i32: return f(std::type_identity<std::int32_t>{});
    case DType::i64: return f(std::type_identity<std::int64_t>{});
    case DType::u8:
    case DType::boolean: break;
  }
  return f(std::type_identity<std::uint8_t>{});
}

}  // namespace bantam::inline v0
