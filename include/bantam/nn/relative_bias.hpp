// What scores get by the distance of a key from the query, in the place of positions (Raffel et al., arXiv:1910.10683, 2.1).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "bantam/kernels/arguments.hpp"

namespace bantam::inline v0::nn {

/// Distances share a learned number by buckets, of which half are of one distance each and the others ever wider, up to `distance`; beyond
/// that all are alike.
struct RelativeBiasOptions {
  std::int64_t buckets = 0;  ///< 0: there is no such bias. Even, and of tokens that see both sides a multiple of 4
  std::int64_t distance = 128;
  bool operator==(const RelativeBiasOptions&) const = default;
};

/// The bucket of a key that stands `distance` tokens behind the query, or before it, if that is negative.
[[nodiscard]] inline std::int64_t bucket_of(std::int64_t distance, bool both_sides, const RelativeBiasOptions& options) noexcept {
  const std::int64_t buckets = both_sides ? options.buckets / 2 : options.buckets, single = buckets / 2;
  const std::int64_t first = both_sides && distance > 0 ? buckets : 0, far = both_sides ? std::abs(distance) : std::max<std::int64_t>(0, -distance);
  if (far < single) return first + far;
  // In floats, as the model was trained: borders of buckets may hang on it.
  const float part = std::log(static_cast<float>(far) / static_cast<float>(single)) / static_cast<float>(std::log(static_cast<double>(options.distance) / static_cast<double>(single)));
  const auto wide = static_cast<std::int64_t>(part * static_cast<float>(buckets - single));
  return first + std::min(buckets - 1, single + wide);
}

/// A number for each head and distance, as kernels take them (AttentionRows::biases).
class RelativeBias {
 public:
  /// Nothing where there are no buckets.
  RelativeBias(const RelativeBiasOptions& options, std::int64_t heads, bool both_sides) : reach_(options.buckets > 0 ? options.distance : 0), heads_(heads) {
    if (options.buckets == 0) return;
    for (std::int64_t i = 0; i < row(); ++i) buckets_.push_back(bucket_of(std::clamp(i - reach_ - page_tokens, -reach_, reach_), both_sides, options));
    values_.resize(static_cast<std::size_t>(heads * row()));
  }

  [[nodiscard]] bool empty() const noexcept { return buckets_.empty(); }
  [[nodiscard]] std::int64_t reach() const noexcept { return reach_; }
  /// Takes a layer's weights, (buckets, heads of the layer), which may be fewer.
  void set(const std::vector<float>& weights, std::int64_t heads) noexcept {
    for (std::int64_t h = 0; h < std::min(heads, heads_); ++h) {
      for (std::size_t i = 0; i < buckets_.size(); ++i) values_[static_cast<std::size_t>(h * row()) + i] = weights[static_cast<std::size_t>(buckets_[i] * heads + h)];
    }
  }
  [[nodiscard]] const float* of_head(std::int64_t head) const noexcept { return values_.data() + head * row(); }

 private:
  /// Numbers of a head: the kernels read a page at once, wherever it stands.
  [[nodiscard]] std::int64_t row() const noexcept { return 2 * (reach_ + page_tokens) + 1; }

  std::int64_t reach_;
  std::int64_t heads_;
  std::vector<std::int64_t> buckets_;  ///< of each distance
  std::vector<float> values_;          ///< (heads, distances)
};

}  // namespace bantam::inline v0::nn
