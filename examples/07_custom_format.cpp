// A weight format of one's own: what it is, how it rounds, how it compares, products with it. Added to the list in
// quant/formats.hpp (docs/add-a-format.md) it has kernels of every instruction set, a place in files and on the command line; with
// kernels/own_format.hpp it works here alone, by the generic kernels.
#include <bantam/bantam.hpp>
#include <bantam/kernels/own_format.hpp>
#include <bantam/tensor/random.hpp>
#include <iostream>

namespace {

/// A sign and a power of two for each weight: 0 and plus or minus 1, 1/2, ... 1/64 of the group's largest (arXiv:1603.01025).
struct Log4 {
  static constexpr std::string_view name = "log4.g64";
  static constexpr bantam::FormatId id{0x7f00};
  static constexpr int group = 64;
  using Plane = bantam::plane::I4;
  using Scale = bantam::scale::F16;
  using Zero = bantam::zero::None;
  static constexpr std::array<float, 16> levels{0.0f, 0x1p-6f,  0x1p-5f,  0x1p-4f,  0x1p-3f,  0x1p-2f,  0x1p-1f,  1.0f,
                                                0.0f, -0x1p-6f, -0x1p-5f, -0x1p-4f, -0x1p-3f, -0x1p-2f, -0x1p-1f, -1.0f};

  static void encode(std::span<const float> weights, std::int8_t* codes, bantam::GroupSide& side) noexcept {
    constexpr std::array<std::uint8_t, 16> sorted{15, 14, 13, 12, 11, 10, 9, 0, 0, 1, 2, 3, 4, 5, 6, 7};
    bantam::detail::encode_levels(weights, levels, sorted, codes, side);
  }
};
static_assert(bantam::QuantFormat<Log4>);

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: 07_custom_format MODEL\n";
    return 2;
  }
  const bantam::Model model = bantam::Model::load(argv[1]);
  const bantam::Tensor<float, 2> weights = model.weights().layers.at(0).mlp.down.dequantize();
  const auto packed = bantam::quantize<Log4>(weights);
  const double mine = bantam::relative_error(weights, packed.dequantize());
  const double nf4 = bantam::relative_error(weights, bantam::quantize<bantam::Nf4>(weights).dequantize());
  std::cout << Log4::name << ": " << packed.bits_per_weight() << " bits a weight, relative error " << mine << ", nf4: " << nf4 << '\n';

  const auto x = bantam::random::normal<float>({8, packed.columns()}, /*seed=*/1);  // (tokens, in)
  const auto exact = bantam::ops::matmul(x, packed);                                // decoded in registers
  const auto fast = bantam::ops::matmul(x, packed, bantam::ops::Precision::fast);   // activations in 8 bits
  const double difference = bantam::relative_error(exact, fast);
  std::cout << "8-bit activations differ by " << difference << '\n';
  return mine < 0.3 && difference < 0.1 ? 0 : 1;
} catch (const bantam::Error& error) {
  std::cerr << "07_custom_format: " << error.what() << '\n';
  return 1;
}
