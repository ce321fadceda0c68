// What tests of compression calibrate on.
#pragma once

#include <vector>

#include "bantam/calibrate/calibration.hpp"
#include "bantam/prune/pruning.hpp"
#include "compress/layer_inputs.hpp"
#include "limits.hpp"

namespace bantam::test {

/// Four samples of 24 tokens of TinyModel's vocabulary.
inline Calibration some_calibration() {
  Calibration calibration;
  for (int seed = 0; seed < 4; ++seed) {
    std::vector<TokenId> sample;
    for (int i = 0; i < 24; ++i) sample.push_back((7 * i + 5 * seed + i * i * seed) % 37);
    calibration.samples.push_back(std::move(sample));
  }
  return calibration;
}

/// The weights that a format holds, and zeros: all of them, or the largest where it holds some.
inline Tensor<float, 2> held_by(const FormatInfo& format, const Tensor<float, 2>& w) {
  return format.kept == Kept::all ? w.clone() : masked(w, magnitude_mask(w, sparsity_of(format)));
}

/// True, where BANTAM_TEST_QUICK is set, of all formats but one whose codes are chosen along a path: they share that search, which takes longest.
inline bool another_has_its_search(const FormatInfo& format) { return quick() && format.step_bits != 0 && format.name != "t2.g64"; }

}  // namespace bantam::test
