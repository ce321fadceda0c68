// A file for what memory has no room for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace bantam::inline v0 {

/// A file without a name: it is gone with the process, however that ends. Written and read in whole blocks, around the system's page cache where the
/// file system can (O_DIRECT), so that memory holds nothing of it. From any thread, different places at once.
class ScratchFile {
 public:
  /// $TMPDIR, if that is set and no file system in memory, else /var/tmp.
  [[nodiscard]] static std::filesystem::path usual_folder();

  /// In a folder; `what` begins messages: "keys and values". Throws not_found or io where none can be made, and invalid_argument where files of
  /// the folder lie in memory.
  ScratchFile(const std::filesystem::path& folder, const std::string& what);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  static constexpr std::size_t block_bytes = 4096;
  /// Offset, place in memory and size are multiples of block_bytes. Short writes and interruptions are retried. Throws io.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// The same, of what was written. Throws io, also where the file ends before.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;
  /// Gives all of its blocks back, if the system can.
  void clear() noexcept;

 private:
  std::string place_;  ///< for messages
  int descriptor_ = -1;
  int direct_ = -1;  ///< the same file, around the page cache; -1 where that is refused
};

}  // namespace bantam::inline v0
