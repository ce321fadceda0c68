// What a file with headers alone and a file that links the library both compute, of the same numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compress/layer_inputs.hpp"

namespace both {

struct Found {
  std::vector<float> moments;
  std::vector<std::byte> nearest, hqq;
  std::vector<float> awq;
  std::vector<std::uint8_t> wanda;
  std::vector<float> products;
  double gptq_loss = 0;
};
/// What the library finds.
Found found_by_library();

}  // namespace both

// Of each file its own: the types in here are not the same.
namespace {

[[maybe_unused]] both::Found find_all() {
  using namespace bantam;
  const std::int64_t rows = 40, columns = 320;
  const auto w = random::normal<float>({rows, columns}, 1);
  const auto x = test::correlated_inputs(500, columns, 2);
  const auto bytes = [](const WeightMatrix& m) { return std::vector<std::byte>(m.view().data, m.view().data + m.bytes()); };
  both::Found found;
  Hessian hessian(columns);
  hessian.add(x);
  for (std::int64_t i = 0; i < columns; ++i) found.moments.push_back(hessian(i, columns - 1));
  const std::vector<float> squares = hessian.mean_squares();
  found.nearest = bytes(nearest(w, format_info<Nf4>(), {.importance = squares}));
  found.hqq = bytes(hqq(w, format_info<IntMin<4>>()));
  const AwqReader reader{w, &format_info<Int<4, 32>>()};
  found.awq = awq_scales({&reader, 1}, hessian, {.ratios = 5}).scales;
  const Mask mask = wanda_mask(w, squares, 0.5);
  found.wanda.assign(mask.span().begin(), mask.span().end());
  const Tensor<float, 2> products = ops::matmul(x, quantize<Q4K>(w), ops::Precision::fast);
  found.products.assign(products.span().begin(), products.span().end());
  found.gptq_loss = gptq(w, hessian, format_info<Int<3, 32>>()).loss;
  return found;
}

}  // namespace
