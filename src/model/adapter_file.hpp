// What files of adapters say: their pairs of tensors by the names of the matrices that they change, and what each pair counts.
#pragma once

#include <functional>

#include "arrangement.hpp"
#include "bantam/io/tensor_source.hpp"
#include "bantam/model/adapter.hpp"

namespace bantam::inline v0 {

struct AdapterFile {
  std::shared_ptr<const TensorSource> tensors;  ///< by the names that the language model's have
  std::string place;                            ///< names the file in messages
  Container container = Container::folder;
  std::vector<std::string> names;  ///< of each tensor, in the file
  /// alpha / rank of the pair that a tensor belongs to, by its name in the file.
  std::function<double(std::string_view name, std::int64_t rank)> scale;

  AdapterUse use = AdapterUse::run;
  bool has_magnitudes = false;       ///< one for each row of a changed matrix (DoRA)
  std::vector<std::int64_t> tokens = {};  ///< whose rows of the embedding were trained

  /// Names of the two tensors of a matrix, whose own name ends with ".weight" or not.
  [[nodiscard]] std::string a_of(std::string_view matrix) const;
  [[nodiscard]] std::string b_of(std::string_view matrix) const;
};

/// A folder of PEFT's, or a GGUF file, told apart by content. Throws not_found, corrupt, and unsupported for what is no plain LoRA, or of
/// another architecture.
[[nodiscard]] AdapterFile open_adapter(const std::filesystem::path& path, const ModelConfig& config, AdapterUse use);

}  // namespace bantam::inline v0
