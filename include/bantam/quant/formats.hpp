// The one list of weight formats. Codecs, kernels, tests, the command line and the file format iterate over it.
#pragma once

#include <type_traits>
#include <utility>

#include "bantam/quant/formats/codebook4.hpp"
#include "bantam/quant/formats/floats.hpp"
#include "bantam/quant/formats/int8.hpp"
#include "bantam/quant/formats/integers.hpp"
#include "bantam/quant/formats/sparse.hpp"
#include "bantam/quant/formats/super.hpp"
#include "bantam/quant/formats/trellis.hpp"

namespace bantam::inline v0 {

template <QuantFormat... F>
struct FormatList {
  static constexpr int size = sizeof...(F);
};

/// Every format there is. To add one: write its file, add it here (docs/add-a-format.md).
using Formats = FormatList<F32Format, F16Format, BF16Format,                   //
                           Int8<0>, Int8<128>, Int8<32>,                       //
                           Int<5, 32>, IntMin<5>,                              //
                           Int<4, 32>, Int<4, 64>, Int<4, 128>, Int4Super,     //
                           IntZero<4, 32>, IntZero<4, 64>, IntZero<4, 128>, IntMin<4>,  //
                           Nf4, Nf4Nested, Nf4Wide, Fp4, Fp4Nested, Fp4Wide, Iq4Nl, Iq4Xs, Mxfp4, Nvfp4,  //
                           Int<3, 32>, Int<3, 64>, Int<3, 128>,                //
                           IntZero<3, 32>, IntZero<3, 64>, IntZero<3, 128>,    //
                           IntZero<2, 32>, IntZero<2, 64>, IntZero<2, 128>,    //
                           Q6K, Q5K, Q4K, Q3K, Q2K,                            //
                           Iq3S, Iq3Xxs, Iq2<32>, Iq2<16>,                     //
                           Int8Pairs, Int4Pairs, Int4Blocks,                   //
                           Trellis<3, 128>, Trellis<4, 128>, Trellis<4, 64>, Trellis<5, 128>, Trellis<6, 128>>;

/// Calls f(std::type_identity<Format>{}) for each format, in list order.
template <class Visitor, QuantFormat... F>
constexpr void for_each_format(Visitor&& visitor, FormatList<F...>) {
  (visitor(std::type_identity<F>{}), ...);
}
template <class Visitor>
constexpr void for_each_format(Visitor&& visitor) {
  for_each_format(std::forward<Visitor>(visitor), Formats{});
}

/// The place of a format in the list.
template <QuantFormat F>
[[nodiscard]] constexpr int format_index() {
  int index = -1;
  int i = 0;
  for_each_format([&](auto format) {
    if constexpr (std::same_as<typename decltype(format)::type, F>) index = i;
    ++i;
  });
  return index;
}

}  // namespace bantam::inline v0
