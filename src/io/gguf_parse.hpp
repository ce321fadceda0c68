// One GGUF file taken apart and checked, before shards are joined.
#pragma once

#include <string>
#include <vector>

#include "bantam/io/gguf.hpp"
#include "io/byte_reader.hpp"

namespace bantam::inline v0::detail {

/// More keys or tensors than this are refused: the largest published models have a few thousand of either, and every
/// one costs several times its bytes in the file once it is in memory.
inline constexpr std::uint64_t gguf_entries_limit = std::uint64_t{1} << 20;
/// Elements of all arrays together; the largest vocabularies and merge lists come to a few millions.
inline constexpr std::uint64_t gguf_elements_limit = std::uint64_t{1} << 24;

using GgufMetadata = HashMap<std::string, GgufValue>;

struct GgufPart {
  GgufMetadata metadata;
  std::vector<TensorEntry> tensors;
};

/// Takes a whole file apart. Throws as GgufFile::open does.
[[nodiscard]] GgufPart parse_gguf(const std::shared_ptr<const MappedFile>& file);

/// Reads `count` key-value pairs; `alignment` receives general.alignment where the file sets it.
[[nodiscard]] GgufMetadata parse_gguf_metadata(ByteReader& reader, std::uint64_t count, std::uint32_t& alignment);

/// "an integer", "a list of texts": what messages call a value.
[[nodiscard]] std::string_view kind_of(const GgufValue& value) noexcept;

}  // namespace bantam::inline v0::detail
