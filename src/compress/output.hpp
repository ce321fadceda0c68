// Where compressed tensors go, whatever the container.
#pragma once

#include <memory>

#include "bantam/compress/compress.hpp"
#include "bantam/model/native_file.hpp"

namespace bantam::inline v0 {

/// Takes every tensor of a checkpoint in its order, frequency divisors of GGUF files left out: they follow from the config.
class Output {
 public:
  virtual ~Output() = default;
  virtual void write_vector(const CheckpointTensor& tensor, const std::vector<float>& values) = 0;
  virtual void write_matrix(const CheckpointTensor& tensor, const WeightMatrix& matrix) = 0;
  /// Everything is complete under its name from here on, and was not there before.
  virtual void commit() = 0;
};

/// `entries`: of the tensors to come, matrices with their formats. Throws invalid_argument where a format does not fit the
/// container, unsupported where the container cannot hold the model.
[[nodiscard]] std::unique_ptr<Output> make_output(Target target, const std::filesystem::path& path, const Checkpoint& checkpoint,
                                                  const Recipe& recipe, const std::vector<NativeWriter::Entry>& entries);

}  // namespace bantam::inline v0
