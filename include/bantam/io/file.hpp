// Files as bytes: read-only mappings, and output that is complete under its final name or not there at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace bantam::inline v0 {

/// A file mapped read-only. Shared by everything that points into it. Replacing the file under its name does no harm;
/// a program that cuts the file itself short makes the lost pages fault when they are touched (SIGBUS); read() throws instead.
class MappedFile {
 public:
  /// Maps a regular file. Throws not_found, io, or invalid_argument for what is no regular file.
  /// An empty file maps to an empty span.
  [[nodiscard]] static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Copies bytes of the mapping by reading the file: no page is mapped on the way. Throws io naming the file when it
  /// was cut short or cannot be read.
  void read(std::span<const std::byte> part, std::byte* to) const;
  static constexpr std::size_t block_bytes = 4096;
  /// Reads the blocks of the file that `part` touches to `to`, at a multiple of block_bytes too, around the system's page
  /// cache where the file system can (O_DIRECT): for files that are read once. Throws like read().
  void read_blocks(std::span<const std::byte> part, std::byte* to) const;
  /// Whether read_blocks() goes around the page cache.
  [[nodiscard]] bool has_direct_reads() const noexcept { return direct_ >= 0; }
  /// Throws io unless the file still has the size and the time of change that it had when it was opened.
  void check_unchanged() const;
  /// Asks the kernel to read these bytes ahead.
  void will_need(std::span<const std::byte> part) const noexcept;
  /// Gives the pages that lie wholly inside `part` back to the kernel; they are read again when touched.
  void drop(std::span<const std::byte> part) const noexcept;
  /// The same, and has the system's page cache forget the bytes where nobody else maps them.
  void forget(std::span<const std::byte> part) const noexcept;

 private:
  MappedFile(std::filesystem::path path, int descriptor);
  void read_from(int descriptor, std::size_t offset, std::size_t end, std::byte* to) const;
  std::filesystem::path path_;
  int descriptor_;
  int direct_ = -1;  ///< the same file, opened around the page cache; -1 where that is refused
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::int64_t changed_ns_ = 0;  ///< when its bytes were changed last
};

/// While any thread waits for read() or read_blocks() of any file: how long ago the last of these calls ended, or the first began. 0: none waits. From any thread.
[[nodiscard]] double stalled_read_seconds() noexcept;

/// Writes a file under a temporary name in the same folder. commit() syncs it and renames it into place; without
/// commit() the destructor removes it, so the old file under the final name stays whole. A process that is killed leaves
/// ".<name>.<letters>.partial" behind, which the next one that writes the same name removes: a lock tells it from the file of one
/// that still writes. A link under the final name is replaced, not followed.
class AtomicFile {
 public:
  /// Throws invalid_argument where the name belongs to a folder, device or pipe, io or not_found where none can be made.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws io naming the file and the system's reason (short writes and EINTR are retried).
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Overwrites bytes written before (headers whose content is known last).
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Makes it so long; what is not written over is zeros. Throws invalid_argument where it is longer.
  void extend_to(std::uint64_t size);
  /// Appends zeros up to the next multiple of `alignment`.
  void pad_to(std::size_t alignment);
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// fsync, rename, fsync of the folder. Throws io; the final name then has the old file or the complete new one.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Reads a small text file (a config, a template). Throws not_found, io, or corrupt above `limit_bytes`.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, std::size_t limit_bytes = 256u << 20);

/// The first bytes of a regular file, `count` or as many as it has: what tells formats apart. Throws as MappedFile::open does.
[[nodiscard]] std::string read_head(const std::filesystem::path& path, std::size_t count);

/// What a path leads to, links followed.
enum class PathKind : std::uint8_t { nothing, file, folder, other };
/// Throws io where that cannot be found out: a link that leads to itself, a folder that may not be searched.
[[nodiscard]] PathKind path_kind(const std::filesystem::path& path);

/// Whether both paths name the same existing file (same device and inode).
[[nodiscard]] bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace bantam::inline v0
