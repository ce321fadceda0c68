// States of several texts, read together, and what of them stands for each.
#pragma once

#include <span>
#include <vector>

#include "bantam/session/embed.hpp"

namespace bantam::inline v0 {

/// A text to be read.
struct PooledText {
  std::span<const TokenId> ids;
  std::span<const std::uint8_t> types = {};
};

/// Calls sink(number of the text, what stands for it: (dim) numbers, or `output` of its last token where that is logits) for each, in order.
/// Throws invalid_argument for a text without a token, `what` before it.
void read_pooled(Engine& engine, std::span<const PooledText> texts, Pooling pooling, PassOutput output, const ReadProgress& progress, std::string_view what,
                 FunctionRef<void(std::size_t text, std::span<const double> values)> sink);

}  // namespace bantam::inline v0
