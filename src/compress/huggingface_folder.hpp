// Writing a Hugging Face folder: config.json, model.safetensors, tokenizer files; matrices are floats or those of a family.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bantam/io/safetensors.hpp"
#include "compress/joined.hpp"
#include "compress/output.hpp"
#include "compress/packed/writer.hpp"

namespace bantam::inline v0 {

class HuggingFaceFolderWriter : public Output {
 public:
  /// `format`: of vectors. `family`: how matrices of quantized formats are stored; null where there are none.
  HuggingFaceFolderWriter(const std::filesystem::path& folder, const Checkpoint& checkpoint, const FormatInfo& format,
                          const std::vector<NativeWriter::Entry>& entries, const PackedWriter* family, const Recipe& recipe);
  /// Without commit() a folder that was made for this is taken away again.
  ~HuggingFaceFolderWriter() override;
  HuggingFaceFolderWriter(const HuggingFaceFolderWriter&) = delete;
  HuggingFaceFolderWriter& operator=(const HuggingFaceFolderWriter&) = delete;
  void write_vector(const CheckpointTensor& tensor, const std::vector<float>& values) override;
  void write_matrix(const CheckpointTensor& tensor, const WeightMatrix& matrix) override;
  /// The weights come last under their names: a folder with model.safetensors is complete.
  void commit() override;

 private:
  /// A tensor of which some parts have come.
  struct Part {
    std::vector<float> values;
    std::int64_t filled = 0;
  };
  /// One of a layer behind pooling, which has a file of its own.
  struct ModuleTensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  void join(const CheckpointTensor& tensor, const Joined& joined, const FormatInfo& format, FunctionRef<void(std::int64_t row, std::span<float> out)> row_of);
  void write(std::span<const float> values, const FormatInfo& format);

  std::filesystem::path folder_;
  const Checkpoint& checkpoint_;
  const FormatInfo& format_;
  const PackedWriter* family_;
  Json quantization_;  ///< what the family says of the folder
  bool created_ = false;
  bool complete_ = false;
  std::unique_ptr<SafetensorsWriter> writer_;
  std::vector<std::byte> bytes_;
  std::map<std::string, Part> parts_;
  std::map<std::string, std::vector<ModuleTensor>> modules_;
};

/// Of one matrix in such a folder, and of the weights' file; `family` is null for plain floats.
[[nodiscard]] std::int64_t huggingface_matrix_bytes(std::int64_t rows, std::int64_t columns, const FormatInfo& format, const PackedWriter* family);
[[nodiscard]] std::int64_t huggingface_file_bytes(const FormatInfo& format, const std::vector<NativeWriter::Entry>& entries,
                                                  const PackedWriter* family);

}  // namespace bantam::inline v0
