// Writing a Hugging Face folder of plain floats: config.json, model.safetensors, tokenizer files.
#pragma once

#include <memory>

#include "bantam/io/safetensors.hpp"
#include "compress/output.hpp"

namespace bantam::inline v0 {

class HuggingFaceFolderWriter : public Output {
 public:
  HuggingFaceFolderWriter(const std::filesystem::path& folder, const Checkpoint& checkpoint, const FormatInfo& format,
                          const std::vector<NativeWriter::Entry>& entries);
  /// Without commit() a folder that was made for this is taken away again.
  ~HuggingFaceFolderWriter() override;
  HuggingFaceFolderWriter(const HuggingFaceFolderWriter&) = delete;
  HuggingFaceFolderWriter& operator=(const HuggingFaceFolderWriter&) = delete;
  void write_vector(const CheckpointTensor& tensor, const std::vector<float>& values) override;
  void write_matrix(const CheckpointTensor& tensor, const WeightMatrix& matrix) override;
  /// The weights come last under their names: a folder with model.safetensors is complete.
  void commit() override;

 private:
  void write(std::span<const float> values, const FormatInfo& format);

  std::filesystem::path folder_;
  const Checkpoint& checkpoint_;
  const FormatInfo& format_;
  bool created_ = false;
  bool complete_ = false;
  std::unique_ptr<SafetensorsWriter> writer_;
  std::vector<std::byte> bytes_;
};

/// Of the weights' file in such a folder.
[[nodiscard]] std::int64_t huggingface_file_bytes(const FormatInfo& format, const std::vector<NativeWriter::Entry>& entries);

}  // namespace bantam::inline v0
