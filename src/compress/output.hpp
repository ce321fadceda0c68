// Where compressed tensors go, whatever the container.
#pragma once

#include <memory>
#include <optional>

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

/// A model in memory. The checkpoint outlives it.
class MemoryOutput : public Output {
 public:
  MemoryOutput(const Checkpoint& checkpoint, const Recipe& recipe);
  void write_vector(const CheckpointTensor& tensor, const std::vector<float>& values) override;
  void write_matrix(const CheckpointTensor& tensor, const WeightMatrix& matrix) override;
  void commit() override;
  /// After commit().
  [[nodiscard]] const Model& model() const noexcept { return *model_; }

 private:
  const Checkpoint& checkpoint_;
  std::string record_;
  ModelWeights weights_;
  std::optional<Model> model_;
};

/// Throws invalid_argument, beginning with `what`, unless such files hold the format.
void check_format(const FormatInfo& format, Target target, std::string_view what);

/// The format that a matrix is written in: the recipe's, or what the container has for it. Throws invalid_argument for
/// embeddings and heads that the container cannot hold as asked.
[[nodiscard]] const FormatInfo& format_in(Target target, const CheckpointTensor& tensor, const Recipe& recipe, const ModelConfig& config);

/// Whether the checkpoint's matrix goes into the container as it is.
[[nodiscard]] bool is_copied(Target target, const CheckpointTensor& tensor, const FormatInfo& format) noexcept;

/// Vectors are written in it.
[[nodiscard]] const FormatInfo& vector_format(Target target, const Recipe& recipe) noexcept;

/// How an output says what made it: the recipe and the name of what it was made from.
[[nodiscard]] std::string recipe_record(const Recipe& recipe, const Checkpoint& checkpoint);

/// `entries`: of the tensors to come, matrices with the formats of format_in(). Throws invalid_argument where one
/// container cannot hold them together, unsupported where it cannot hold the model.
[[nodiscard]] std::unique_ptr<Output> make_output(Target target, const std::filesystem::path& path, const Checkpoint& checkpoint,
                                                  const Recipe& recipe, const std::vector<NativeWriter::Entry>& entries);

/// The checkpoint as a container has it: GGUF files of some architectures have its scales in weights. What is made of it stays in `folded`.
[[nodiscard]] const Checkpoint& as_written(Target target, const Checkpoint& checkpoint, std::optional<Checkpoint>& folded);

/// Bytes of the file that would become, without writing it; of a folder, of its weights. Throws what make_output throws for
/// formats and models.
[[nodiscard]] std::int64_t output_bytes(Target target, const Checkpoint& checkpoint, const Recipe& recipe, const std::vector<NativeWriter::Entry>& entries);

/// What the file has of one matrix, between tensors that start at multiples of `alignment`.
struct StoredSize {
  std::int64_t bytes;
  std::int64_t alignment;
};
[[nodiscard]] StoredSize stored_size(Target target, std::int64_t rows, std::int64_t columns, const FormatInfo& format);

}  // namespace bantam::inline v0
