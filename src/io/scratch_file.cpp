// Temporary files that nobody else sees.
#include "bantam/io/scratch_file.hpp"

#include <fcntl.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "bantam/core/error.hpp"
#include "io/posix.hpp"

namespace bantam::inline v0 {

namespace {

/// Of files that are in memory.
bool is_in_memory(const std::filesystem::path& folder) noexcept {
  constexpr unsigned long tmpfs = 0x01021994, ramfs = 0x858458f6;  // statfs(2)
  struct statfs status {};
  if (::statfs(folder.c_str(), &status) != 0) return false;
  const auto type = static_cast<unsigned long>(status.f_type) & 0xffffffff;
  return type == tmpfs || type == ramfs;
}

/// Whole blocks of what was moved: around the page cache nothing else may follow.
std::size_t whole_blocks(ssize_t count) noexcept { return static_cast<std::size_t>(count) / ScratchFile::block_bytes * ScratchFile::block_bytes; }

}  // namespace

std::filesystem::path ScratchFile::usual_folder() {
  const char* const told = std::getenv("TMPDIR");
  return told != nullptr && *told != '\0' && !is_in_memory(told) ? told : "/var/tmp";
}

ScratchFile::ScratchFile(const std::filesystem::path& folder, const std::string& what) : place_(message(what, " in ", detail::shown(folder))) {
  if (is_in_memory(folder)) fail(Errc::invalid_argument, place_, ": expected a folder on a drive, found one whose files are in memory");
  std::string name = (folder / "bantam-XXXXXX").string();
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) detail::fail_system(place_, "create a file", errno);
  ::unlink(name.c_str());
  // Through the descriptor: the name is gone.
  direct_ = ::open(("/proc/self/fd/" + std::to_string(descriptor_)).c_str(), O_RDWR | O_CLOEXEC | O_DIRECT);
}

ScratchFile::~ScratchFile() {
  ::close(descriptor_);
  if (direct_ >= 0) ::close(direct_);
}

void ScratchFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (direct_ >= 0 && !bytes.empty()) {
    const ssize_t count = ::pwrite(direct_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    const std::size_t done = count > 0 ? whole_blocks(count) : 0;
    if (done == 0) break;  // the plain way finishes it, or says why it cannot
    bytes = bytes.subspan(done);
    offset += done;
  }
  if (bytes.empty()) return;
  detail::write_all(place_, descriptor_, offset, bytes);
  // What cannot be written later has to be known now, and what is written is not to stay in memory.
  detail::sync(place_, descriptor_);
  (void)::posix_fadvise(descriptor_, static_cast<off_t>(offset), std::ssize(bytes), POSIX_FADV_DONTNEED);
}

void ScratchFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (direct_ >= 0 && !bytes.empty()) {
    const ssize_t count = ::pread(direct_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    const std::size_t done = count > 0 ? whole_blocks(count) : 0;
    if (done == 0) break;
    bytes = bytes.subspan(done);
    offset += done;
  }
  const std::uint64_t first = offset;
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) detail::fail_system(place_, "read", errno);
    if (count == 0) fail(Errc::io, place_, ": expected ", bytes.size(), " more bytes at ", offset, ", the file ends there now");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  if (offset > first) (void)::posix_fadvise(descriptor_, static_cast<off_t>(first), static_cast<off_t>(offset - first), POSIX_FADV_DONTNEED);
}

void ScratchFile::clear() noexcept { (void)::ftruncate(descriptor_, 0); }

}  // namespace bantam::inline v0
