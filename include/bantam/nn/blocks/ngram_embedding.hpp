// What a layer adds to several residual streams of the n-grams that a text has come to, before its first half (Qwen4).
#pragma once

#include <cmath>
#include <vector>

#include "bantam/nn/blocks/hyper_connections.hpp"
#include "bantam/nn/blocks/recurrent_pass.hpp"
#include "bantam/nn/blocks/weights/ngram.hpp"
#include "bantam/nn/ngram.hpp"

namespace bantam::inline v0::nn {

/// Of stream i and embeddings e: g = value e sigmoid(signed root of key_i . query_i / sqrt(dim)), where key_i is the normed key e, query_i the normed
/// stream; the stream gets g + silu(convolution of the normed g over the last tokens). The convolution's inputs are kept in a recurrent state.
class NgramEmbedding {
 public:
  NgramEmbedding(const KernelTable& kernels, const NgramOptions& ngrams, const HyperConnectionOptions& streams) : kernels_(kernels), o_(ngrams), streams_(streams) {}

  void serve(const NgramWeights& w) {
    if (w.key.empty()) return;
    embeddings_.serve(kernels_, w.key);
    embeddings_.serve(kernels_, w.value);
  }
  void plan(std::int64_t tokens, std::span<const PassSequence> sequences) {
    embeddings_.resize(tokens, o_.all_width());
    for (RowBuffer* rows : {&gated_, &normed_, &keys_}) rows->resize(tokens, width());
    values_.resize(tokens, streams_.dim);
    sequences_.find(sequences);
  }
  /// What the table has for a row's n-grams, (all of their rows), to be written before run().
  [[nodiscard]] float* embedding(std::int64_t t) noexcept { return embeddings_.row(t); }

  /// Adds to the streams of all rows. begin(row) readies those of a row. What the convolution has read is the last part of a recurrent state.
  template <class Begin>
  void run(const Pass& pass, const NgramWeights& w, HyperConnections& streams, Begin&& begin) noexcept {
    pass.for_rows(Work::rounding, [&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) embeddings_.quantize_row(kernels_, t);
    });
    linear(pass, embeddings_, {{w.key, nullptr, keys_.output()}, {w.value, nullptr, values_.output()}});
    pass.for_rows(Work::gates, [&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) {
        begin(t);
        gate(w, t, streams.row(t));
      }
    });
    const CausalConvolution convolution{.weights = w.convolution.data(), .channels = width(), .taps = o_.taps, .dilation = o_.tokens};
    pass.for_parts(Work::recurrence, width(), [&](std::int64_t t, std::int64_t from, std::int64_t to) {
      const RecurrentSequence& sequence = sequences_[pass.rows[static_cast<std::size_t>(t)].sequence];
      convolution.run(kernels_, sequence, sequence.state->layers() - 1, normed_, t, keys_.row(t), from, to);
      kernels_.add(gated_.row(t) + from, keys_.row(t) + from, to - from);
      kernels_.add(streams.row(t) + from, gated_.row(t) + from, to - from);
    });
  }

 private:
  [[nodiscard]] std::int64_t width() const noexcept { return streams_.streams * streams_.dim; }
  /// The gated values of a row, and the same normed.
  void gate(const NgramWeights& w, std::int64_t t, const float* streams) noexcept {
    float *keys = keys_.row(t), *queries = normed_.row(t);
    norm_streams(kernels_, streams_, keys, w.key_norm, keys);
    norm_streams(kernels_, streams_, streams, w.query_norm, queries);
    for (std::int64_t i = 0; i < streams_.streams; ++i) {
      const std::int64_t at = i * streams_.dim;
      const float product = inner_product(keys + at, queries + at, streams_.dim) / std::sqrt(static_cast<float>(streams_.dim));
      const float root = std::sqrt(std::max(std::fabs(product), least_root)), opened = sigmoid(product == 0 ? 0.0F : std::copysign(root, product));
      for (std::int64_t c = 0; c < streams_.dim; ++c) gated_.row(t)[at + c] = values_.row(t)[c] * opened;
    }
    norm_streams(kernels_, streams_, gated_.row(t), w.value_norm, queries);
  }

  static constexpr float least_root = 1e-6F;  ///< as the published code has it

  const KernelTable& kernels_;
  const NgramOptions o_;
  const HyperConnectionOptions streams_;
  RecurrentSequences sequences_;
  Activations embeddings_;  ///< (tokens, all width)
  RowBuffer keys_;          ///< (tokens, streams dim); later what the convolution makes
  RowBuffer values_;        ///< (tokens, dim)
  RowBuffer gated_, normed_;  ///< (tokens, streams dim)
};

}  // namespace bantam::inline v0::nn
