// Per-layer embeddings alone: against double precision.
#include "bantam/nn/blocks/per_layer_embedding.hpp"

#include "bantam/quant/formats.hpp"
#include "bantam/tensor/random.hpp"
#include "reference/activations.hpp"
#include "reference/matmul.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

constexpr std::int64_t vocab = 11, stream_dim = 40, width = 12, layers = 3, tokens = 19;

std::vector<double> all_of(TensorView<const float, 2> t) { return {t.data(), t.data() + t.size()}; }

}  // namespace

TEST_CASE("per-layer embeddings of any layer add what the formula says, on any number of threads") {
  const auto normal = [](std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
    return random::normal<float>({rows, columns}, seed, {.deviation = 1 / std::sqrt(static_cast<double>(columns))});
  };
  const Tensor<float, 2> table = normal(vocab, layers * width, 1), model_projection = normal(layers * width, stream_dim, 2), gate = normal(width, stream_dim, 3), projection = normal(stream_dim, width, 4);
  const Tensor<float, 2> embedded = random::normal<float>({tokens, stream_dim}, 5), stream = random::normal<float>({tokens, stream_dim}, 6), gains = random::normal<float>({1, width}, 7);
  const std::vector<float> norm(gains.span().begin(), gains.span().end());
  const auto id_of = [](std::int64_t t) { return t * t % vocab; };
  const WeightMatrix stored_table = WeightMatrix::quantize(table, format_info<F32Format>()), stored_projection = WeightMatrix::quantize(model_projection, format_info<F32Format>());
  const nn::PerLayerWeights weights{WeightMatrix::quantize(gate, format_info<F32Format>()), WeightMatrix::quantize(projection, format_info<F32Format>()), {}};
  std::vector<float> first;
  for (const int threads : {1, 3}) {
    Team team(threads);
    const std::vector<nn::PassRow> rows(static_cast<std::size_t>(tokens));
    const nn::Pass pass{kernels_in_use(), team, rows};
    nn::PerLayerEmbedding block(kernels_in_use(), {.dim = stream_dim, .width = width, .layers = layers, .norm_eps = 1e-6}, team.size());
    nn::Activations x;
    block.serve(weights, x);
    block.resize(tokens, true);
    x.resize(tokens, stream_dim);
    for (std::int64_t t = 0; t < tokens; ++t) std::copy_n(&embedded(t, 0), stream_dim, x.row(t));
    block.embed(pass, stored_projection, norm, x, [&](std::int64_t t, std::span<float> out, RowCodes& scratch) { stored_table.read_row(id_of(t), out, scratch); });
    for (std::int64_t t = 0; t < tokens; ++t) std::copy_n(&stream(t, 0), stream_dim, x.row(t));
    std::vector<float> all;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      Tensor<float, 2> out({tokens, stream_dim});
      block.hide(pass, weights, x, block.of_layer(layer));
      block.project(pass, weights, {out.data(), stream_dim});
      all.insert(all.end(), out.span().begin(), out.span().end());
      const std::vector<double> projected = reference::matmul(all_of(embedded), all_of(model_projection), tokens, layers * width, stream_dim);
      const std::vector<double> gated = reference::matmul(all_of(stream), all_of(gate), tokens, width, stream_dim);
      for (std::int64_t t = 0; t < tokens; ++t) {
        std::vector<double> own, hidden;
        double squares = 0;
        for (std::int64_t c = 0; c < width; ++c) {
          own.push_back(projected[static_cast<std::size_t>((t * layers + layer) * width + c)] / std::sqrt(double{stream_dim}));
          squares += own.back() * own.back() / double{width};
        }
        for (std::int64_t c = 0; c < width; ++c) {
          const auto at = static_cast<std::size_t>(c);
          const double e = (own[at] / std::sqrt(squares + 1e-6) * double{norm[at]} + double{table(id_of(t), layer * width + c)} * std::sqrt(double{width})) / std::sqrt(2.0);
          hidden.push_back(reference::gelu_tanh(gated[static_cast<std::size_t>(t * width + c)]) * e);
        }
        const std::vector<double> expected = reference::matmul(hidden, all_of(projection), 1, stream_dim, width);
        for (std::int64_t c = 0; c < stream_dim; ++c) CHECK(double{out(t, c)} == doctest::Approx(expected[static_cast<std::size_t>(c)]).epsilon(1e-4));
      }
    }
    if (first.empty()) first = all;
    CHECK(all == first);
  }
}

}  // namespace bantam::test
