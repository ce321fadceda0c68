// What is left of a matrix fitted to what all of it did, against least squares in double precision.
#include "bantam/prune/compensation.hpp"

#include "compress/layer_inputs.hpp"
#include "reference/gptq.hpp"
#include "support.hpp"

namespace bantam::test {

TEST_CASE("columns that stay take over by least squares what those that go did") {
  const std::int64_t rows = 9, columns = 70, tokens = 200;
  const auto weights = random::normal<float>({rows, columns}, 1), x = correlated_inputs(tokens, columns, 2);
  Hessian hessian(columns);
  hessian.add(x);
  std::vector<std::int64_t> kept, removed;
  for (std::int64_t c = 0; c < columns; ++c) (c % 3 == 1 ? removed : kept).push_back(c);
  const double damping = 0.02;
  const Tensor<float, 2> found = compensate(weights, hessian, kept, damping);
  const auto at = [&](std::int64_t i, std::int64_t j) {  // of H
    double sum = 0;
    for (std::int64_t t = 0; t < tokens; ++t) sum += static_cast<double>(x(t, i)) * static_cast<double>(x(t, j));
    return sum;
  };
  reference::Square of_kept(kept.size(), std::vector<double>(kept.size()));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    for (std::size_t j = 0; j < kept.size(); ++j) of_kept[i][j] = at(kept[i], kept[j]);
  }
  double mean = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) mean += of_kept[i][i] / static_cast<double>(kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) of_kept[i][i] += damping * mean;
  const reference::Square inverse = reference::inverse(of_kept);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<double> lost;
    for (const std::int64_t k : kept) {
      lost.push_back(0);
      for (const std::int64_t c : removed) lost.back() += static_cast<double>(weights(r, c)) * at(c, k);
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      double expected = static_cast<double>(weights(r, kept[i]));
      for (std::size_t k = 0; k < kept.size(); ++k) expected += lost[k] * inverse[k][i];
      CHECK(static_cast<double>(found(r, static_cast<std::int64_t>(i))) == doctest::Approx(expected).scale(1).epsilon(1e-4));
    }
  }
  CHECK(error_of([&] { (void)compensate(weights, hessian, std::vector<std::int64_t>{3, 2}); }).starts_with("compensation: expected some of 70 columns"));
}

}  // namespace bantam::test
