// Opening, reading and comparing files.
#include "bantam/io/file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <memory>
#include <system_error>

#include "bantam/io/path_error.hpp"
#include "io/posix.hpp"

namespace bantam::inline v0 {

namespace detail {

namespace {

// Writing past the process's limit raises SIGXFSZ, which kills by default; asking first turns it into an error.
void check_size_limit(const std::filesystem::path& path, std::uint64_t end) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (end > limit.rlim_cur) fail_system(path, "write", EFBIG);
}

}  // namespace

std::string system_reason(int error) {
  std::string reason = std::generic_category().message(error);
  if (!reason.empty()) reason[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(reason[0])));
  return reason;
}

void fail_system(const std::filesystem::path& path, std::string_view action, int error) {
  const Errc code = error == ENOENT || error == ENOTDIR ? Errc::not_found : Errc::io;
  throw PathError(code, message(shown(path), ": cannot ", action, ": ", system_reason(error)), path, error);
}

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

void for_each_name(const std::filesystem::path& folder, FunctionRef<bool(std::string_view)> f) {
  struct Close {
    void operator()(DIR* open) const noexcept { ::closedir(open); }
  };
  const std::unique_ptr<DIR, Close> entries(::opendir(folder.c_str()));
  while (const dirent* entry = entries != nullptr ? ::readdir(entries.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && !f(name)) return;
  }
}

OpenFile open_regular(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would hang before it can be refused.
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) fail_system(path, "open", errno);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) fail_system(path, "read its size", errno);
  if (S_ISDIR(status.st_mode)) fail(Errc::invalid_argument, shown(path), ": expected a file, found a folder");
  if (!S_ISREG(status.st_mode)) fail(Errc::invalid_argument, shown(path), ": expected a regular file, found a device or pipe");
  return {std::move(descriptor), static_cast<std::size_t>(status.st_size)};
}

void write_all(const std::filesystem::path& path, int descriptor, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (descriptor < 0) fail(Errc::invalid_argument, shown(path), ": written to after commit");
  if (bytes.empty()) return;
  check_size_limit(path, offset + bytes.size());
  // One call moves at most 2 GiB less one page on Linux; larger counts are cut there anyway.
  constexpr std::size_t most = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(descriptor, bytes.data(), std::min(bytes.size(), most), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_system(path, "write", errno);
    // A write of nothing that reports no reason would repeat forever.
    if (done == 0) fail_system(path, "write", EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

void sync(const std::filesystem::path& path, int descriptor) {
  int result;
  do result = ::fsync(descriptor);
  while (result != 0 && errno == EINTR);
  if (result != 0) fail_system(path, "sync", errno);
}

}  // namespace detail

std::string read_text_file(const std::filesystem::path& path, std::size_t limit_bytes) {
  const detail::OpenFile file = detail::open_regular(path);
  const auto too_long = [&] {
    fail(Errc::corrupt, detail::shown(path), ": expected at most ", limit_bytes, " bytes of text, found more");
  };
  if (file.size > limit_bytes) too_long();

  // The size is a hint only: files of /proc and /sys say 0, and a file may grow while it is read.
  // One byte beyond a size that was right meets the end of the file at the price of one call.
  std::string text(file.size + 1, '\0');
  std::size_t filled = 0;
  for (;;) {
    if (filled == text.size()) {
      if (filled > limit_bytes) too_long();
      text.resize(2 * filled);
    }
    const ssize_t got = ::read(file.descriptor.get(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) detail::fail_system(path, "read", errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  if (filled > limit_bytes) too_long();
  text.resize(filled);
  return text;
}

std::string read_head(const std::filesystem::path& path, std::size_t count) {
  const detail::OpenFile file = detail::open_regular(path);
  std::string head(count, '\0');
  std::size_t filled = 0;
  while (filled < count) {
    const ssize_t got = ::read(file.descriptor.get(), head.data() + filled, count - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) detail::fail_system(path, "read", errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  head.resize(filled);
  return head;
}

PathKind path_kind(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return PathKind::nothing;
    detail::fail_system(path, "look at it", errno);
  }
  return S_ISREG(status.st_mode) ? PathKind::file : S_ISDIR(status.st_mode) ? PathKind::folder : PathKind::other;
}

bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  struct stat first {};
  struct stat second {};
  if (::stat(a.c_str(), &first) != 0 || ::stat(b.c_str(), &second) != 0) return false;
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace bantam::inline v0
