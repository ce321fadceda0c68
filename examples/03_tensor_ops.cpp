// Tensors, weights in every format, and the operations on them, without any session.
#include <bantam/bantam.hpp>
#include <bantam/tensor/random.hpp>
#include <iostream>

namespace ops = bantam::ops;

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: 03_tensor_ops MODEL\n";
    return 2;
  }
  const bantam::Model model = bantam::Model::load(argv[1]);
  const bantam::Tensor<float, 2> weights = model.weights().layers.at(0).mlp.down.dequantize();  // (out, in)

  // A format known to the type ...
  const auto packed = bantam::quantize<bantam::Nf4>(weights);
  std::cout << "nf4: " << packed.bits_per_weight() << " bits a weight\n";
  // ... or chosen at run time: every one there is.
  for (const bantam::FormatInfo& format : bantam::formats()) {
    const auto rounded = bantam::WeightMatrix::quantize(weights, format);
    std::cout << format.name << ": relative error " << bantam::relative_error(weights, rounded.dequantize()) << '\n';
  }

  // x wT: weights are decoded in registers; `fast` rounds the activations to 8 bits first, as inference does.
  const auto x = bantam::random::normal<float>({8, packed.columns()}, /*seed=*/1);  // (tokens, in)
  bantam::Tensor<float, 2> y = ops::matmul(x, packed);                              // (tokens, out)
  const bantam::Tensor<float, 2> fast = ops::matmul(x, packed, ops::Precision::fast);
  const double difference = bantam::relative_error(y, fast);
  std::cout << "8-bit activations differ by " << difference << '\n';

  bantam::Tensor<float, 1> gamma({y.extent(1)});
  for (float& g : gamma.span()) g = 1.0f;
  ops::rms_norm(y, gamma, y, {.eps = 1e-6f});  // in place
  const auto last = y[7];                      // borrows y: a TensorView<float, 1>
  float squares = 0;
  for (std::int64_t i = 0; i < last.extent(0); ++i) squares += last[i] * last[i];
  std::cout << "mean square after the norm: " << squares / static_cast<float>(last.extent(0)) << '\n';
  return difference < 0.1 ? 0 : 1;
} catch (const bantam::Error& error) {
  std::cerr << "03_tensor_ops: " << error.what() << '\n';
  return 1;
}
