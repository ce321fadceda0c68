// The weights of a layer: what its branches' blocks read, and the norms around them. What an architecture lacks is empty.
#pragma once

#include "bantam/nn/blocks/weights/altup.hpp"
#include "bantam/nn/blocks/weights/attention.hpp"
#include "bantam/nn/blocks/weights/channel_delta.hpp"
#include "bantam/nn/blocks/weights/cross_attention.hpp"
#include "bantam/nn/blocks/weights/drafting.hpp"
#include "bantam/nn/blocks/weights/experts.hpp"
#include "bantam/nn/blocks/weights/gated_delta.hpp"
#include "bantam/nn/blocks/weights/hyper_connections.hpp"
#include "bantam/nn/blocks/weights/laurel.hpp"
#include "bantam/nn/blocks/weights/mlp.hpp"
#include "bantam/nn/blocks/weights/ngram.hpp"
#include "bantam/nn/blocks/weights/per_layer.hpp"
#include "bantam/nn/blocks/weights/short_convolution.hpp"
#include "bantam/nn/blocks/weights/state_space.hpp"

namespace bantam::inline v0 {

/// One layer: two halves, the first of which lets tokens see each other, and what a few models have behind them.
struct LayerWeights {
  std::vector<float> attention_norm, attention_norm_bias, attention_out_norm, attention_out_norm_bias;  ///< (dim), around the first half
  std::vector<float> ffn_norm, ffn_norm_bias, ffn_out_norm, ffn_out_norm_bias;                          ///< (dim), around the second
  nn::AttentionWeights attention;  ///< the first half is one of these, or attention beside a state space
  nn::GatedDeltaWeights delta;
  nn::ChannelDeltaWeights channel_delta;
  nn::StateSpaceWeights state_space;
  nn::ShortConvolutionWeights convolution;
  nn::CrossAttentionWeights cross;  ///< between the two, of a decoder behind an encoder
  std::vector<float> cross_norm, cross_norm_bias, cross_out_norm, cross_out_norm_bias;  ///< (dim), around it
  nn::MlpWeights mlp;          ///< of dense layers, or the shared expert
  nn::ExpertsWeights experts;  ///< of sparse layers
  std::vector<float> mlp_out_norm, expert_norm, expert_out_norm;  ///< (dim), where MLP and experts have norms of their own
  nn::PerLayerWeights per_layer;
  nn::AltUpWeights altup;    ///< of a model with several residual streams
  nn::HyperConnectionWeights mixer_streams, ffn_streams;  ///< the same, of another kind: before each half
  nn::NgramWeights ngram;    ///< of the layer that reads embeddings of n-grams
  nn::LaurelWeights laurel;  ///< beside attention
  std::vector<float> layer_scale;  ///< (1)
  nn::DraftingWeights drafting;  ///< of a layer that drafts
};

namespace nn {

inline constexpr BlockWeight<LayerWeights> norms_table[] = {
    {Role::attention_norm, WeightAxis::one, WeightAxis::dim, &LayerWeights::attention_norm},
    {Role::attention_norm_bias, WeightAxis::one, WeightAxis::dim, &LayerWeights::attention_norm_bias},
    {Role::attention_out_norm, WeightAxis::one, WeightAxis::dim, &LayerWeights::attention_out_norm},
    {Role::attention_out_norm_bias, WeightAxis::one, WeightAxis::dim, &LayerWeights::attention_out_norm_bias},
    {Role::cross_norm, WeightAxis::one, WeightAxis::dim, &LayerWeights::cross_norm},
    {Role::cross_norm_bias, WeightAxis::one, WeightAxis::dim, &LayerWeights::cross_norm_bias},
    {Role::cross_out_norm, WeightAxis::one, WeightAxis::dim, &LayerWeights::cross_out_norm},
    {Role::cross_out_norm_bias, WeightAxis::one, WeightAxis::dim, &LayerWeights::cross_out_norm_bias},
    {Role::ffn_norm, WeightAxis::one, WeightAxis::dim, &LayerWeights::ffn_norm},
    {Role::ffn_norm_bias, WeightAxis::one, WeightAxis::dim, &LayerWeights::ffn_norm_bias},
    {Role::ffn_out_norm, WeightAxis::one, WeightAxis::dim, &LayerWeights::ffn_out_norm},
    {Role::ffn_out_norm_bias, WeightAxis::one, WeightAxis::dim, &LayerWeights::ffn_out_norm_bias},
    {Role::mlp_out_norm, WeightAxis::one, WeightAxis::dim, &LayerWeights::mlp_out_norm},
    {Role::expert_norm, WeightAxis::one, WeightAxis::dim, &LayerWeights::expert_norm},
    {Role::expert_out_norm, WeightAxis::one, WeightAxis::dim, &LayerWeights::expert_out_norm},
    {Role::layer_scale, WeightAxis::one, WeightAxis::one, &LayerWeights::layer_scale},
};

}  // namespace nn
}  // namespace bantam::inline v0
