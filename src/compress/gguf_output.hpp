// Writing a GGUF file that llama.cpp and everything built on it load.
#pragma once

#include "bantam/io/gguf_writer.hpp"
#include "compress/output.hpp"

namespace bantam::inline v0 {

/// `format`, which GGUF has, or a finer one where rows are no whole blocks of it.
[[nodiscard]] const FormatInfo& gguf_format(const CheckpointTensor& tensor, const FormatInfo& format);

class GgufOutput : public Output {
 public:
  GgufOutput(const std::filesystem::path& path, const Checkpoint& checkpoint, const std::vector<NativeWriter::Entry>& entries);
  void write_vector(const CheckpointTensor& tensor, const std::vector<float>& values) override;
  void write_matrix(const CheckpointTensor& tensor, const WeightMatrix& matrix) override;
  void commit() override;

 private:
  void write_part(const CheckpointTensor& tensor, const TensorKey& key, std::span<const std::byte> rows);

  const ModelConfig& config_;
  GgufWriter file_;
  std::vector<std::byte> parts_;  ///< of a tensor whose parts' rows follow each other in turn
  std::int64_t parts_rows_ = 0;   ///< that are there
  std::vector<std::pair<std::string, std::vector<float>>> rope_;  ///< what its frequencies are divided by
};

/// Of the file that GgufOutput writes.
[[nodiscard]] std::int64_t gguf_file_bytes(const Checkpoint& checkpoint, const std::vector<NativeWriter::Entry>& entries);

}  // namespace bantam::inline v0
