// Bytes from a source under a file's name.
#pragma once

#include "bantam/io/byte_source.hpp"
#include "io/posix.hpp"

namespace bantam::inline v0::detail {

/// A file in memory and in no folder, that holds what a source gave. Readers of files find it under path() while this lives;
/// what they have mapped stays.
class MemoryFile {
 public:
  /// Throws io, and what the source throws.
  explicit MemoryFile(const ByteSource& source);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  Descriptor descriptor_;
  std::filesystem::path path_;
};

}  // namespace bantam::inline v0::detail
