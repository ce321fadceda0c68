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
/// XXH3-64 of everything before the data, with these 16 digits as zeros. Files that bantam wrote at first have none.
inline constexpr std::string_view header_key = "bantam.header";
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
    std::optional<std::vector<std::int64_t>> shape = {};  ///< of a vector in folders, where it is not (columns)
    std::string joined = {};                   ///< in folders, the tensor that this is a part of; empty: none
    std::vector<std::int64_t> joined_shape = {};
    std::vector<std::int64_t> wholes = {};     ///< in folders, a tensor of these numbers behind the others
    std::vector<std::string> pieces = {};      ///< in folders, tensors that have equal parts of its rows; empty: it is one
    std::int64_t layer = -1, expert = -1;  ///< of an expert's: its tensors lie side by side in native files, for one read
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

/// What the header's hash says of the header.
enum class HeaderHash : std::uint8_t { absent, right, wrong };
/// Reads the header of a native file. Metadata of a name that this version does not know is wrong: a changed one. Throws as opening does.
[[nodiscard]] HeaderHash check_header(const std::filesystem::path& path);

class Checkpoint;
/// Compares weights that were loaded from a native file with the hashes that it stores. Throws corrupt naming what differs, also
/// for a header that differs from its own hash; unsupported for other files, which store none.
void check_hashes(const Checkpoint& checkpoint, const ModelWeights& weights);
/// What a native file of a model in memory has, its matrices in the formats that they are in.
[[nodiscard]] std::vector<NativeWriter::Entry> entries_in_memory(const Checkpoint& checkpoint);

/// XXH3-64, hexadecimal.
[[nodiscard]] std::string content_hash(std::span<const std::byte> bytes);

}  // namespace bantam::inline v0
