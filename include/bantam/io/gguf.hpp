// The GGUF container, versions 2 and 3: key-value metadata and tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bantam/core/hash.hpp"
#include "bantam/io/tensor_source.hpp"

namespace bantam::inline v0 {

/// A value of GGUF metadata. Integers and floats keep their meaning, not their width; arrays hold one kind.
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<bool>, std::vector<std::string>>;

/// A checked GGUF file. Everything declared was compared with what the file holds before it was allocated.
class GgufFile final : public TensorSource {
 public:
  /// Throws corrupt naming file, byte offset or key, expected and found; unsupported for versions other than 2 and 3.
  /// The first shard of a split file opens them all: the others lie next to it under names that differ in the number.
  /// Tensors of a type that nothing here decodes are listed under its name ("NVFP4"); using one is refused later.
  [[nodiscard]] static std::shared_ptr<const GgufFile> open(const std::filesystem::path& path);

  [[nodiscard]] std::span<const TensorEntry> tensors() const noexcept override { return tensors_; }
  [[nodiscard]] const TensorEntry* find(std::string_view name) const noexcept override;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] const HashMap<std::string, GgufValue>& metadata() const noexcept { return metadata_; }
  /// Null when the key is absent.
  [[nodiscard]] const GgufValue* value(std::string_view key) const;

  /// Typed access: empty when the key is absent; throws corrupt naming file, key, expected and found kind otherwise.
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;  ///< integers too
  [[nodiscard]] std::optional<bool> boolean(std::string_view key) const;
  [[nodiscard]] const std::string* text(std::string_view key) const;
  [[nodiscard]] const std::vector<std::string>* texts(std::string_view key) const;
  [[nodiscard]] const std::vector<double>* numbers(std::string_view key) const;
  [[nodiscard]] const std::vector<std::int64_t>* integers(std::string_view key) const;

 private:
  GgufFile() = default;
  std::filesystem::path path_;
  std::vector<TensorEntry> tensors_;
  HashMap<std::string_view, std::size_t> index_;
  HashMap<std::string, GgufValue> metadata_;
};

}  // namespace bantam::inline v0
