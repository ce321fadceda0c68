// What each format would cost at each place of a model, measured.
#pragma once

#include "bantam/compress/compress.hpp"

namespace bantam::inline v0 {

struct SensitivityOptions {
  /// Formats to consider. Every matrix may also stay in the format that it has. Empty: a ladder from 1.6 to 16 bits, of a native file with
  /// trellises, of GGUF with its types of vectors.
  std::vector<const FormatInfo*> candidates = {};
  /// Formats whose divergence is measured for each matrix of a block, from the coarsest to the finest of those that are neither floats
  /// nor trellises. The others' is interpolated between them by the error of the matrix's outputs. That of formats whose codes are
  /// searched for, which takes microseconds a weight, is estimated on 64 to 127 rows.
  int measured = 3;
  /// Tokens that divergences are measured over; fewer, down to 512, where `memory` bytes would not hold their hidden states.
  std::int64_t tokens = 2048;
  std::int64_t memory = std::int64_t{1} << 30;
};

/// What one format does to one matrix.
struct FormatCost {
  const FormatInfo* format = nullptr;
  double error =
      0;          ///< ||(W - W') X|| / ||W X|| over the calibration inputs; of embeddings and heads ||W - W'|| / ||W||
  double kl = 0;  ///< divergence of the model, in nats a token, when this matrix alone, or these together, are in the format
  bool measured = false;  ///< kl is; otherwise it is interpolated
};

struct Sensitivity {
  std::string name;                      ///< of the matrix, or of the first of several
  std::vector<FormatCost> formats;
  std::vector<std::string> others = {};  ///< that take its format: experts' of the layer that read the same
};

/// For every matrix, in the checkpoint's order, rounds it to each candidate as the recipe's method does (AWQ's scales aside)
/// for the inputs that it has in the unchanged model (rotated, where the recipe says so), and runs the model with it. Matrices that an exception of the recipe
/// names have that format alone. All experts of a layer take one format for gate and up and one for down, and are rounded for the
/// tokens that are routed to them, one expert at a time. Blocks come one by one: what every changed matrix makes of the hidden states is carried
/// through the later ones, up to the logits of the unchanged head. Memory: a block, its second moments, those states, and
/// the logits of 256 tokens three times. Time, for each measured format: half a run of the model for each matrix, over
/// `tokens` tokens. Throws what compress_file throws; cancelled when `progress` says so (it counts matrices).
[[nodiscard]] std::vector<Sensitivity> measure_sensitivity(const Checkpoint& checkpoint, const Recipe& recipe,
                                                           const Calibration& calibration,
                                                           Target target = Target::native,
                                                           const SensitivityOptions& options = {},
                                                           const ProgressFn& progress = {});

/// Divergence at an error, from measured points of (error, divergence): between two of them log-log, beyond them as the
/// square of the error, which is the law of small changes.
[[nodiscard]] double interpolate_divergence(std::span<const std::pair<double, double>> points, double error);

}  // namespace bantam::inline v0
