// The native file: a valid safetensors file of strip16 matrices that carries all that a model needs (docs/formats.md).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bantam/io/safetensors.hpp"
#include "bantam/model/checkpoint.hpp"

namespace bantam::inline v0 {

/// Keys of `__metadata__`. Every value is text; all but the version are JSON.
namespace native {
/// Where tensors start in the file: a page, so that every tensor can be mapped or read past the page cache on its own.
inline constexpr std::size_t alignment = 4096;
inline constexpr std::string_view version_key = "bantam.version";
inline constexpr std::string_view version = "1";
inline constexpr std::string_view config_key = "bantam.config";        ///< as config.json
inline constexpr std::string_view tensors_key = "bantam.tensors";      ///< name -> {format, id, shape, ordered}
inline constexpr std::string_view tokenizer_key = "bantam.tokenizer";  ///< Tokenizer::to_json
inline constexpr std::string_view recipe_key = "bantam.recipe";        ///< what made it
inline constexpr std::string_view hashes_key = "bantam.hashes";        ///< name -> XXH3-64 of the bytes, hexadecimal
}  // namespace native

/// Writes a native file tensor by tensor, in bounded memory.
class NativeWriter {
 public:
  struct Entry {
    std::string name;
    const FormatInfo* format;  ///< null: a vector of floats
    std::int64_t rows;
    std::int64_t columns;
    const ColumnPermutation* order = nullptr;  ///< of a matrix; follows its bytes in the file
  };
  /// `entries` in the order in which they will be written.
  NativeWriter(const std::filesystem::path& path, const ModelConfig& config, const Tokenizer& tokenizer,
               std::string_view recipe_json, std::vector<Entry> entries);
  ~NativeWriter();
  /// Of the file that a writer with these arguments makes; nothing is written.
  [[nodiscard]] static std::uint64_t file_bytes(const ModelConfig& config, const Tokenizer& tokenizer, std::string_view recipe_json,
                                                const std::vector<Entry>& entries);
  /// The next matrix or vector, and the order of its columns if it was announced.
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Checkpoint;
/// What a native file of a model in memory has, its matrices in the formats that they are in.
[[nodiscard]] std::vector<NativeWriter::Entry> entries_in_memory(const Checkpoint& checkpoint);

/// XXH3-64, hexadecimal.
[[nodiscard]] std::string content_hash(std::span<const std::byte> bytes);

}  // namespace bantam::inline v0
