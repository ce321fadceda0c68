// Files in memory.
#include "io/memory_file.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

namespace bantam::inline v0 {

ByteSource bytes_of(std::span<const std::byte> bytes) {
  return [bytes](std::span<std::byte> to) mutable {
    const std::size_t count = std::min(bytes.size(), to.size());
    std::copy_n(bytes.begin(), count, to.begin());
    bytes = bytes.subspan(count);
    return count;
  };
}

namespace detail {

MemoryFile::MemoryFile(const ByteSource& source) : descriptor_(::memfd_create("bantam", MFD_CLOEXEC)) {
  if (descriptor_.get() < 0) fail_system("file in memory", "create", errno);
  path_ = "/proc/self/fd/" + std::to_string(descriptor_.get());
  std::vector<std::byte> buffer(1u << 20);
  std::uint64_t size = 0;
  while (const std::size_t count = source(buffer)) {
    if (count > buffer.size()) {
      fail(Errc::invalid_argument, "source of bytes: expected at most ", buffer.size(), " bytes at once, found ", count);
    }
    write_all(path_, descriptor_.get(), size, std::span(buffer).first(count));
    size += count;
  }
}

}  // namespace detail
}  // namespace bantam::inline v0
