// The safetensors container: one file, or a Hugging Face folder sharded by an index.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bantam/core/hash.hpp"
#include "bantam/core/team.hpp"
#include "bantam/io/tensor_source.hpp"

namespace bantam::inline v0 {

/// A checked safetensors file (or several read as one).
class SafetensorsFile final : public TensorSource {
 public:
  /// Opens one .safetensors file. Throws corrupt naming file, tensor, expected and found.
  [[nodiscard]] static std::shared_ptr<const SafetensorsFile> open(const std::filesystem::path& file);
  /// Opens `model.safetensors`, or the shards of `model.safetensors.index.json`, of a folder.
  /// Throws not_found when it has neither; a folder of .bin/.pt files gets the advice to convert (pickle is never read).
  [[nodiscard]] static std::shared_ptr<const SafetensorsFile> open_folder(const std::filesystem::path& folder);

  /// In file order; padding tensors ("__pad_N") are left out.
  [[nodiscard]] std::span<const TensorEntry> tensors() const noexcept override { return tensors_; }
  [[nodiscard]] const TensorEntry* find(std::string_view name) const noexcept override;
  /// `__metadata__`: string to string (of all shards).
  [[nodiscard]] const HashMap<std::string, std::string>& metadata() const noexcept { return metadata_; }

 private:
  SafetensorsFile() = default;
  void add_file(const std::filesystem::path& file);
  void index_names(const std::string& place);
  std::vector<TensorEntry> tensors_;
  HashMap<std::string_view, std::size_t> index_;
  HashMap<std::string, std::string> metadata_;
};

/// Writes a safetensors file whose tensors are announced first and then streamed in that order: memory stays bounded
/// by one tensor. Complete or absent under its final name (AtomicFile).
class SafetensorsWriter {
 public:
  struct Announced {
    std::string name;
    std::string type;  ///< "F32", "F16", "BF16", "U8", ...
    std::vector<std::int64_t> shape;
  };
  struct Options {
    /// Each tensor starts at a multiple of this in the file; gaps are filled by named U8 padding tensors
    /// ("__pad_N"), so that the result stays a valid safetensors file. A power of two; up to 8 it writes no padding.
    std::size_t alignment = 8;
    /// Room kept in the header for metadata set after the data is written (hashes), in bytes. A pair takes its key, its
    /// value, 6 bytes, and one more for each quote or backslash.
    std::size_t metadata_room = 0;
    /// In which order tensors lie in the file: their numbers among those announced. Empty: as they were announced.
    std::vector<std::size_t> order = {};
  };
  /// Throws invalid_argument for repeated or reserved names, unknown types and impossible shapes.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<Announced> tensors,
                    std::vector<std::pair<std::string, std::string>> metadata, Options options);
  SafetensorsWriter(const std::filesystem::path& path, std::vector<Announced> tensors,
                    std::vector<std::pair<std::string, std::string>> metadata);
  ~SafetensorsWriter();
  /// Of one tensor.
  [[nodiscard]] static std::uint64_t tensor_bytes(const Announced& tensor);
  /// Of the file that a writer with these arguments makes; nothing is written. Throws what the constructor throws for them.
  [[nodiscard]] static std::uint64_t file_bytes(std::vector<Announced> tensors, const std::vector<std::pair<std::string, std::string>>& metadata,
                                                Options options);

  /// The next announced tensor, in pieces if wished; throws invalid_argument when more bytes come than announced.
  void write(std::span<const std::byte> bytes);
  /// Adds metadata after the fact; throws invalid_argument beyond metadata_room or for a key that is set already.
  void set_metadata(std::string key, std::string value);
  /// Checks that everything announced was written, writes the header, syncs and renames.
  void commit();
  /// The same. `seal` gets the bytes before the data, the length and the JSON filled up with spaces, and may change them.
  void commit(FunctionRef<void(std::span<char>)> seal);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bantam::inline v0
