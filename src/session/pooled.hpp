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
  std::span<const ScaledAdapter> adapters = {};
};

/// What stands for a text, as the states of its tokens come in.
class Pool {
 public:
  Pool(Pooling pooling, std::int64_t tokens, std::size_t size) : pooling_(pooling), last_(tokens - 1), sums_(size) {}
  void add(std::int64_t index, std::span<const float> state) {
    if ((pooling_ == Pooling::cls && index != 0) || (pooling_ == Pooling::last && index != last_)) return;
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += static_cast<double>(state[i]);
  }
  /// When all have come; once.
  [[nodiscard]] std::span<const double> finish() {
    if (pooling_ == Pooling::mean) {
      for (double& sum : sums_) sum /= static_cast<double>(last_ + 1);
    }
    return sums_;
  }

 private:
  Pooling pooling_;
  std::int64_t last_;
  std::vector<double> sums_;
};

/// Throws unsupported for models whose decoder answers what an encoder reads.
void check_pooled(const ModelConfig& config, std::string_view what);

/// Calls sink(number of the text, what stands for it: (dim) numbers, or `output` of its last token where that is logits) for each, in order.
/// Throws invalid_argument for a text without a token, `what` before it.
void read_pooled(Engine& engine, std::span<const PooledText> texts, Pooling pooling, PassOutput output, const ReadProgress& progress, std::string_view what,
                 FunctionRef<void(std::size_t text, std::span<const double> values)> sink);

}  // namespace bantam::inline v0
