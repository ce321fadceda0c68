// Importance matrices: how large the inputs of a model's matrices are, as llama.cpp writes and reads it.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bantam/calibrate/calibration.hpp"
#include "bantam/model/checkpoint.hpp"

namespace bantam::inline v0 {

/// Mean squares of inputs, by GGUF's names of the tensors that read them ("blk.0.attn_q.weight").
struct ImportanceMatrix {
  struct Entry {
    std::vector<float> mean_squares;  ///< (matrices, columns)
    std::vector<double> counts;       ///< tokens of each matrix, or pieces of text (of older files); 0: nothing is known of it
  };
  std::map<std::string, Entry, std::less<>> entries;
  std::vector<std::string> texts;   ///< names of what it was measured on
  std::int64_t pieces = 0;          ///< of text
  std::int64_t piece_tokens = 0;

  /// What counts for one matrix: (columns), or empty where nothing is known. `expert`: below 0 for a matrix alone.
  [[nodiscard]] std::span<const float> of(std::string_view tensor, std::int64_t expert = -1) const noexcept;
};

/// A file of llama-imatrix, GGUF or the older kind. Throws corrupt naming the file, the tensor, expected and found; in time and memory
/// that are linear in the file.
[[nodiscard]] ImportanceMatrix read_importance(const std::filesystem::path& path);
/// A GGUF file as llama-quantize reads it, complete or not there.
void write_importance(const ImportanceMatrix& importance, const std::filesystem::path& path);
/// Of every matrix of a model's blocks that reads with others, over calibration text: one run of the model. Experts that no token goes to
/// have a count of 0. Throws what compression throws for texts.
[[nodiscard]] ImportanceMatrix measure_importance(const Checkpoint& checkpoint, const Calibration& calibration);

}  // namespace bantam::inline v0
