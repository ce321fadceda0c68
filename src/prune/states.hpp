// Hidden states of the calibration text, carried through blocks that are not rounded.
#pragma once

#include "calibrate/block_pass.hpp"

namespace bantam::inline v0 {

struct States {
  States(const Checkpoint& checkpoint, const Calibration& calibration) : source(checkpoint), pass(source, calibration) {}
  const ModelSource source;
  BlockPass pass;
};

/// What a norm of weights `gain` puts out for hidden states (tokens, dim), of the tokens first .. first + count: (count, dim).
inline Tensor<float, 2> normed(std::span<const float> states, std::int64_t first, std::int64_t count, const ModelConfig& config,
                               float gain = 1) {
  Tensor<float, 1> gains({config.dim});
  std::ranges::fill(gains.span(), gain);
  Tensor<float, 2> out({count, config.dim});
  std::copy_n(states.begin() + first * config.dim, count * config.dim, out.data());
  ops::rms_norm(out, gains, out, {.eps = static_cast<float>(config.norm_eps)});
  return out;
}

/// Calls f(first, count) for rows, tokens or of a table, that are worked on at once.
template <class F>
void for_rows(std::int64_t rows, F&& f) {
  constexpr std::int64_t chunk = 1024;  // a few MB
  for (std::int64_t first = 0; first < rows; first += chunk) f(first, std::min(chunk, rows - first));
}

}  // namespace bantam::inline v0
