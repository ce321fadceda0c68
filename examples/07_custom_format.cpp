// A weight format of one's own: what it is, how it rounds, and how it compares. Added to the list in quant/formats.hpp
// (docs/add-a-format.md) it has kernels, a place in files and on the command line; here it stands alone.
#include <bantam/bantam.hpp>
#include <bantam/quant/fit.hpp>
#include <bantam/quant/strip16.hpp>
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

/// Rounds every row to the format and reads it back. weights: (rows, columns).
bantam::Tensor<float, 2> round_trip(const bantam::Tensor<float, 2>& weights) {
  bantam::Tensor<float, 2> out(weights.shape());
  const auto columns = static_cast<std::size_t>(weights.extent(1));
  std::vector<std::byte> panel(static_cast<std::size_t>(bantam::Strip16<Log4>::panel_bytes(weights.extent(1))));
  bantam::RowCodes scratch;
  for (std::int64_t row = 0; row < weights.extent(0); ++row) {
    bantam::encode_row<Log4>(panel.data(), 0, {&weights(row, 0), columns}, scratch);
    bantam::decode_row<Log4>(panel.data(), 0, {&out(row, 0), columns}, scratch);
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: 07_custom_format MODEL\n";
    return 2;
  }
  const bantam::Model model = bantam::Model::load(argv[1]);
  const bantam::Tensor<float, 2> weights = model.weights().layers.at(0).down.dequantize();
  const double mine = bantam::relative_error(weights, round_trip(weights));
  const double nf4 = bantam::relative_error(weights, bantam::quantize<bantam::Nf4>(weights).dequantize());
  std::cout << Log4::name << ": relative error " << mine << ", nf4: " << nf4 << '\n';
  return mine < 0.3 ? 0 : 1;
} catch (const bantam::Error& error) {
  std::cerr << "07_custom_format: " << error.what() << '\n';
  return 1;
}
