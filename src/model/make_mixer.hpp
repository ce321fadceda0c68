// The block of a layer's first half, as its config describes it.
#pragma once

#include <memory>

#include "bantam/model/config.hpp"
#include "bantam/nn/blocks/altup.hpp"
#include "bantam/nn/blocks/cross_attention.hpp"
#include "bantam/nn/blocks/hyper_connections.hpp"
#include "bantam/nn/blocks/mixer.hpp"
#include "bantam/nn/blocks/per_layer_embedding.hpp"

namespace bantam::inline v0 {

/// For all layers that are like this one; null: it has none.
[[nodiscard]] std::unique_ptr<nn::Mixer> make_mixer(std::int64_t layer, const KernelTable& kernels, const ModelConfig& config, std::int64_t context_tokens, int workers);
/// The first layer that has the same block as layer i: of its kind, and of attention with heads of the same shape.
[[nodiscard]] std::int64_t first_like(const ModelConfig& config, std::int64_t i) noexcept;
/// Of layers of a decoder, to what an encoder made.
[[nodiscard]] nn::AttentionShape cross_shape(const ModelConfig& config);
[[nodiscard]] nn::AltUpOptions altup_options(const ModelConfig& config) noexcept;
[[nodiscard]] nn::HyperConnectionOptions connection_options(const ModelConfig& config) noexcept;
[[nodiscard]] nn::PerLayerOptions per_layer_options(const ModelConfig& config);

}  // namespace bantam::inline v0
