// Times of decoding, without a model.
#pragma once

#include <memory>

#include "bantam/compress/compress.hpp"
#include "bantam/model/forward.hpp"

namespace bantam::inline v0 {

/// Decodes tokens on a model of zeros: of as many layers as there is room for, and, where these are not all, of half of them,
/// too: time is linear in the layers.
class DecodeTimer {
 public:
  /// Shapes in the formats of a plan for them; `room`: bytes for matrices of layers.
  DecodeTimer(const Checkpoint& shapes, const Plan& plan, std::int64_t room = std::int64_t{1} << 30);
  ~DecodeTimer();
  DecodeTimer(const DecodeTimer&) = delete;
  DecodeTimer& operator=(const DecodeTimer&) = delete;

  /// Of one token, through all layers.
  double seconds();

 private:
  struct Run;
  std::int64_t all_, fitting_;
  ModelWeights weights_;
  std::vector<std::unique_ptr<Run>> runs_;
};

}  // namespace bantam::inline v0
