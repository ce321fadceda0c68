// Must not compile: a format outside the list, without kernels/own_format.hpp.
#include <bantam/bantam.hpp>

struct Mine : bantam::Int<4, 32> {
  static constexpr std::string_view name = "mine.g32";
  static constexpr bantam::FormatId id{0x7f03};
};

double bits(const bantam::Tensor<float, 2>& weights) { return bantam::quantize<Mine>(weights).bits_per_weight(); }
