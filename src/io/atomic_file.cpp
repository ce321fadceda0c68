// Output that appears under its final name complete, or not at all.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "bantam/io/file.hpp"
#include "io/posix.hpp"

namespace bantam::inline v0 {

namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

constexpr std::string_view letters = "0123456789abcdefghijklmnopqrstuv";
constexpr std::size_t letter_count = 8;
constexpr std::string_view ending = ".partial";

// ".model.gguf." of all temporary names of "model.gguf", cut so that they fit where the final name fits.
std::string temporary_stem(const std::filesystem::path& path) {
  // 255 bytes is what Linux file systems allow for one name.
  return message('.', path.filename().string().substr(0, 255 - 2 - letter_count - ending.size()), '.');
}

// ".model.gguf.k3x9q0ab.partial"
std::filesystem::path temporary_name(const std::filesystem::path& path) {
  unsigned char noise[letter_count] = {};
  if (::getrandom(noise, sizeof noise, 0) != sizeof noise) detail::fail_system(path, "name a temporary file", errno);
  std::string name = temporary_stem(path);
  for (const unsigned char byte : noise) name += letters[byte % letters.size()];
  return folder_of(path) / name.append(ending);
}

bool is_temporary_name(std::string_view name, std::string_view stem) {
  if (name.size() != stem.size() + letter_count + ending.size() || !name.starts_with(stem) || !name.ends_with(ending)) return false;
  return name.substr(stem.size(), letter_count).find_first_not_of(letters) == name.npos;
}

/// Removes what killed processes have left of the same file: temporary names that nobody holds a lock on. What cannot be looked at
/// or locked stays.
void remove_abandoned(const std::filesystem::path& path) {
  const std::string stem = temporary_stem(path);
  const std::filesystem::path folder = folder_of(path);
  detail::for_each_name(folder, [&](std::string_view name) {
    if (!is_temporary_name(name, stem)) return true;
    const std::filesystem::path left = folder / name;
    const detail::Descriptor file(::open(left.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    struct stat status {};
    if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return true;
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(left.c_str());
    return true;
  });
}

/// Says that somebody writes the new file. False: another process took it for abandoned before that, and has removed it.
bool claim(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;  // else: a file system without locks
  struct stat status {};
  return ::fstat(descriptor, &status) != 0 || status.st_nlink > 0;
}

/// The folder that `path` lies in, to be synced. Less than 0: it may be written and not read; its entry is then up to the system.
int open_folder_of(const std::filesystem::path& path) {
  const int folder = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0 && errno != EACCES) detail::fail_system(path, "open the folder", errno);
  return folder;
}

/// Allocates nothing unless it fails.
void sync_folder(const std::filesystem::path& path, int folder) {
  if (folder < 0) return;
  int result;
  do result = ::fsync(folder);
  while (result != 0 && errno == EINTR);
  // Some network file systems have no sync of folders and say EINVAL.
  if (result != 0 && errno != EINVAL) detail::fail_system(path, "sync the folder", errno);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  if (!path_.has_filename()) fail(Errc::invalid_argument, detail::shown(path_), ": expected the name of a file");
  struct stat status {};
  // Renaming onto /dev/null would replace the device itself.
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    fail(Errc::invalid_argument, detail::shown(path_), ": expected a regular file or none, found a folder, device or pipe");
  }
  remove_abandoned(path_);
  for (;;) {
    temporary_ = temporary_name(path_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor_ >= 0 && claim(descriptor_)) return;
    if (descriptor_ >= 0) {
      ::close(std::exchange(descriptor_, -1));
    } else if (errno != EEXIST && errno != EINTR) {
      detail::fail_system(path_, "create", errno);
    }
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  detail::write_all(path_, descriptor_, size_, bytes);
  size_ += bytes.size();
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (offset > size_ || bytes.size() > size_ - offset) {
    fail(Errc::invalid_argument, detail::shown(path_), ": ", bytes.size(), " bytes at offset ", offset,
         " were never written, the file has ", size_);
  }
  detail::write_all(path_, descriptor_, offset, bytes);
}

void AtomicFile::extend_to(std::uint64_t size) {
  if (size < size_) fail(Errc::invalid_argument, detail::shown(path_), ": expected a length of at least ", size_, " bytes, found ", size);
  while (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
    if (errno != EINTR) detail::fail_system(path_, "extend", errno);
  }
  size_ = size;
}

void AtomicFile::pad_to(std::size_t alignment) {
  if (alignment == 0) fail(Errc::invalid_argument, detail::shown(path_), ": expected a positive alignment, found 0");
  static constexpr std::byte zeros[4096] = {};
  std::uint64_t missing = (alignment - size_ % alignment) % alignment;
  while (missing > 0) {
    const std::size_t part = std::min<std::uint64_t>(missing, sizeof zeros);
    write(std::span(zeros, part));
    missing -= part;
  }
}

void AtomicFile::commit() {
  if (descriptor_ < 0) fail(Errc::invalid_argument, detail::shown(path_), ": committed twice");
  detail::sync(path_, descriptor_);
  const detail::Descriptor folder(open_folder_of(path_));
  // Renamed while it is open, and so locked: closed before, it would look abandoned to whoever writes the same name.
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) detail::fail_system(path_, "rename into place", errno);
  // The file is there: from here on memory that runs out must not say otherwise.
  temporary_.clear();
  ::close(std::exchange(descriptor_, -1));  // the sync has reported the data safe
  sync_folder(path_, folder.get());
}

}  // namespace bantam::inline v0
