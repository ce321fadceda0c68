// The weights of the layer that reads embeddings of n-grams.
#pragma once

#include "bantam/nn/blocks/table.hpp"

namespace bantam::inline v0::nn {

/// Of n residual streams. `e` is what the table has for the n-grams that end in a token, (width of all its rows).
struct NgramWeights {
  WeightMatrix key;                 ///< (n dim, width): what streams are compared with
  WeightMatrix value;               ///< (dim, width)
  std::vector<float> key_norm;      ///< (n dim), of each stream by itself, as the next two
  std::vector<float> query_norm;    ///< of the streams
  std::vector<float> value_norm;    ///< before the convolution
  std::vector<float> convolution;   ///< (taps, n dim)
};

inline constexpr BlockWeight<NgramWeights> ngram_table[] = {
    {Role::ngram_key, WeightAxis::ngram_streams, WeightAxis::ngram_width, &NgramWeights::key},
    {Role::ngram_value, WeightAxis::dim, WeightAxis::ngram_width, &NgramWeights::value},
    {Role::ngram_key_norm, WeightAxis::one, WeightAxis::ngram_streams, &NgramWeights::key_norm},
    {Role::ngram_query_norm, WeightAxis::one, WeightAxis::ngram_streams, &NgramWeights::query_norm},
    {Role::ngram_value_norm, WeightAxis::one, WeightAxis::ngram_streams, &NgramWeights::value_norm},
    {Role::ngram_convolution, WeightAxis::one, WeightAxis::ngram_taps, &NgramWeights::convolution},
};

}  // namespace bantam::inline v0::nn
