// Formats outside the list: with this header, quantize<MyFormat>() and products of it work in the program that has the format. Without
// the library (bantam/header_only.hpp) all formats are like these: what a program does not use is not compiled.
//
// Its kernels are the generic ones, compiled where it is used. Files, names and command lines know the list alone: a model with such
// weights runs, but is not saved.
#pragma once

#include "bantam/kernels/make_table.hpp"
#include "bantam/quant/describe_format.hpp"
#include "bantam/simd/generic.hpp"

namespace bantam::inline v0::detail {

template <QuantFormat F>
constexpr bool is_like_none_of_the_list() {
  bool alone = true;
  for_each_format([&](auto listed) {
    using Listed = typename decltype(listed)::type;
    alone = alone && std::string_view(F::name) != std::string_view(Listed::name) && F::id != Listed::id;
  });
  return alone;
}

template <QuantFormat F>
inline constexpr FormatKernels own_kernels = bantam::kernels::make_format<simd::generic, F>();

template <QuantFormat F>
constexpr FormatInfo describe_own_format() {
  FormatInfo info = describe_format<F>(format_index<F>());
  info.own_kernels = &own_kernels<F>;
  return info;
}

template <QuantFormat F>
struct OwnFormat {
  static_assert(format_index<F>() >= 0 || is_like_none_of_the_list<F>(), "a format outside the list needs a name and an id that no format of the list has");
  static constexpr FormatInfo info = describe_own_format<F>();
};

}  // namespace bantam::inline v0::detail
