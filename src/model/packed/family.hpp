// How families of quantizers store weight matrices in Hugging Face folders.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "bantam/model/checkpoint.hpp"
#include "grid_matrix.hpp"
#include "module_tensors.hpp"
#include "text/json.hpp"
#include "text/regex.hpp"

namespace bantam::inline v0 {

/// One folder's way of storing matrices, made from its quantization_config.
class PackedFamily {
 public:
  virtual ~PackedFamily() = default;
  /// The matrix (rows, columns) of a module; null where it is stored plainly, as MODULE.weight of floats. Throws corrupt
  /// naming the tensor that contradicts the config, the shape or its neighbors; unsupported.
  [[nodiscard]] virtual std::shared_ptr<MatrixSource> open(ModuleTensors tensors, std::int64_t rows, std::int64_t columns) const = 0;
};

/// Reads config.json's quantization_config, or what old files have beside it. Null when a folder has neither.
[[nodiscard]] std::unique_ptr<const PackedFamily> open_packed_family(const std::filesystem::path& folder, const OpenOptions& options);

// The list, each in its file. `config`: the quantization_config; `place` names it.
std::unique_ptr<const PackedFamily> open_gptq(const Json& config, const std::string& place, const OpenOptions& options);
std::unique_ptr<const PackedFamily> open_awq(const Json& config, const std::string& place, const OpenOptions& options);
std::unique_ptr<const PackedFamily> open_bitsandbytes(const Json& config, const std::string& place, const OpenOptions& options);
std::unique_ptr<const PackedFamily> open_compressed_tensors(const Json& config, const std::string& place, const OpenOptions& options);
std::unique_ptr<const PackedFamily> open_modelopt(const Json& config, const std::string& place, const OpenOptions& options);
std::unique_ptr<const PackedFamily> open_bitnet(const Json& config, const std::string& place, const OpenOptions& options);
std::unique_ptr<const PackedFamily> open_fp8(const Json& config, const std::string& place, const OpenOptions& options);

/// A whole number from low to high; `otherwise` when the key is absent or null. Throws corrupt.
[[nodiscard]] std::int64_t whole_or(const Json& object, const char* key, std::int64_t low, std::int64_t high, std::int64_t otherwise,
                                    std::string_view place);

/// An expression that must match from the first character of a module's name on, as Python's re.match.
class NamePattern {
 public:
  NamePattern(std::string_view expression, std::string_view place);
  [[nodiscard]] bool matches(std::string_view module) const;

 private:
  Regex regex_;
};

}  // namespace bantam::inline v0
