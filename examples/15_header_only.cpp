// Quantizes and prunes a matrix of one's own with headers alone, and says what each way does to the layer's outputs. No library:
// g++ -std=c++20 -O2 -march=native -I include examples/15_header_only.cpp
#include <bantam/header_only.hpp>
#include <iostream>

int main() try {
  using bantam::Tensor, bantam::WeightMatrix, bantam::random::normal;
  using Format = bantam::Nf4;
  constexpr std::int64_t rows = 128, columns = 256, tokens = 2048;
  const auto weights = normal<float>({rows, columns}, /*seed=*/1);  // (out, in)
  // Inputs that depend on each other, some of them large, as those of real layers do: (tokens, in).
  auto inputs = normal<float>({tokens, columns}, 2);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t c = 1; c < columns; ++c) inputs(t, c) = 0.7f * inputs(t, c - 1) + (c % 64 == 0 ? 6.0f : 1.0f) * inputs(t, c);
  }
  bantam::Hessian hessian(columns);  // sum of x xT
  hessian.add(inputs);

  const Tensor<float, 2> outputs = bantam::ops::matmul(inputs, bantam::quantize<bantam::F32Format>(weights));
  const auto error = [&](const WeightMatrix& w, const Tensor<float, 2>& x) { return bantam::relative_error(outputs, bantam::ops::matmul(x, w)); };
  const bantam::FormatInfo& format = bantam::format_info<Format>();

  const double rounded = error(bantam::quantize<Format>(weights), inputs);
  const double gptq = error(bantam::gptq(weights, hessian, format).weights, inputs);

  const bantam::AwqReader reader{weights, &format};
  const std::vector<float> scales = bantam::awq_scales({&reader, 1}, hessian).scales;
  Tensor<float, 2> scaled = weights.clone(), divided = inputs.clone();  // columns of weights times s, inputs over s
  for (std::int64_t i = 0; i < scaled.size(); ++i) scaled.data()[i] *= scales[static_cast<std::size_t>(i % columns)];
  for (std::int64_t i = 0; i < divided.size(); ++i) divided.data()[i] /= scales[static_cast<std::size_t>(i % columns)];
  const double awq = error(bantam::quantize<Format>(scaled), divided);
  std::cout << Format::name << ": rounded " << rounded << ", awq " << awq << ", gptq " << gptq << '\n';

  // Half of the weights of each row removed; then the other half makes up for them, in floats or in codes, which are refined besides.
  const bantam::Mask mask = bantam::wanda_mask(weights, hessian.mean_squares(), 0.5);
  const auto& floats = bantam::format_info<bantam::F32Format>();
  const double wanda = error(bantam::quantize<bantam::F32Format>(bantam::masked(weights, mask)), inputs);
  const double repaired = error(bantam::gptq(weights, hessian, floats, {}, {}, {.mask = &mask}).weights, inputs);
  const double both = error(bantam::gptq(weights, hessian, format, {}, {}, {.mask = &mask}).weights, inputs);
  std::cout << "half removed: wanda " << wanda << ", compensated " << repaired << ", in " << Format::name << ' ' << both << '\n';

  // A quarter of the inputs removed, as when what made them is pruned, and what is left fitted to the outputs.
  std::vector<std::int64_t> kept;
  for (std::int64_t c = 0; c < columns; ++c) {
    if (c % 4 != 1) kept.push_back(c);
  }
  const Tensor<float, 2> fewer = bantam::keep_columns(inputs, kept);
  const double cut = error(bantam::quantize<bantam::F32Format>(bantam::keep_columns(weights, kept)), fewer);
  const double fitted = error(bantam::quantize<bantam::F32Format>(bantam::compensate(weights, hessian, kept)), fewer);
  std::cout << "a quarter of the inputs removed: " << cut << ", fitted " << fitted << '\n';
  return gptq < rounded && awq < rounded && repaired < wanda && fitted < cut ? 0 : 1;
} catch (const bantam::Error& error) {
  std::cerr << "15_header_only: " << error.what() << '\n';
  return 1;
}
