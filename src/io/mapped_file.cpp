// Read-only mappings of files.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>

#include "bantam/core/memory.hpp"
#include "bantam/io/file.hpp"
#include "io/posix.hpp"

namespace bantam::inline v0 {

namespace {

std::uintptr_t page_size() noexcept {
  static const auto size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// Size, and when its bytes were changed last, in nanoseconds.
std::pair<std::size_t, std::int64_t> size_and_time(const std::filesystem::path& path, int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) detail::fail_system(path, "read its size", errno);
  return {static_cast<std::size_t>(status.st_size), std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  detail::OpenFile file = detail::open_regular(path);
  // The object exists before the mapping does, so that nothing can leak it.
  const std::shared_ptr<MappedFile> mapped(new MappedFile(path, file.descriptor.get()));
  (void)file.descriptor.release();
  mapped->changed_ns_ = size_and_time(path, mapped->descriptor_).second;
  // Through the descriptor, not the name: another file may have the name by now.
  mapped->direct_ = ::open(("/proc/self/fd/" + std::to_string(mapped->descriptor_)).c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (file.size == 0) return mapped;  // the system refuses empty mappings
  void* data = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, mapped->descriptor_, 0);
  if (data == MAP_FAILED) detail::fail_system(path, "map", errno);
  mapped->data_ = static_cast<const std::byte*>(data);
  mapped->size_ = file.size;
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  ::close(descriptor_);
  if (direct_ >= 0) ::close(direct_);
}

namespace {

using Clock = std::chrono::steady_clock;
std::atomic<int> under_way{0};
std::atomic<Clock::rep> moved{0};  ///< when one of them ended, or the first began

/// A call that may take as long as a drive wants.
struct ReadUnderWay {
  ReadUnderWay() noexcept {
    if (under_way++ == 0) note_now();
  }
  ~ReadUnderWay() {
    note_now();
    --under_way;
  }
  ReadUnderWay(const ReadUnderWay&) = delete;
  ReadUnderWay& operator=(const ReadUnderWay&) = delete;

 private:
  static void note_now() noexcept { moved = Clock::now().time_since_epoch().count(); }
};

}  // namespace

double stalled_read_seconds() noexcept {
  if (under_way == 0) return 0;
  const Clock::duration since = Clock::now().time_since_epoch() - Clock::duration(moved.load());
  return std::max(0.0, std::chrono::duration<double>(since).count());
}

/// The bytes offset .. end of the file.
void MappedFile::read_from(int descriptor, std::size_t offset, std::size_t end, std::byte* to) const {
  const ReadUnderWay waits;
  while (offset < end) {
    const ssize_t count = ::pread(descriptor, to, end - offset, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) detail::fail_system(path_, "read", errno);
    if (count == 0) fail(Errc::io, detail::shown(path_), ": expected ", end - offset, " more bytes at ", offset, ", the file ends there now");
    offset += static_cast<std::size_t>(count);
    to += count;
  }
}

void MappedFile::read(std::span<const std::byte> part, std::byte* to) const {
  const auto offset = static_cast<std::size_t>(part.data() - data_);
  read_from(descriptor_, offset, offset + part.size(), to);
}

void MappedFile::read_blocks(std::span<const std::byte> part, std::byte* to) const {
  const auto offset = static_cast<std::size_t>(part.data() - data_);
  const std::size_t first = offset / block_bytes * block_bytes;
  const std::size_t last = round_up(offset + part.size(), block_bytes);
  std::size_t done = first;
  // Whole blocks are asked for: the last of the file comes short.
  const ReadUnderWay waits;
  while (direct_ >= 0 && done < std::min(last, size_)) {
    const ssize_t count = ::pread(direct_, to + (done - first), last - done, static_cast<off_t>(done));
    if (count <= 0) break;  // the plain way finishes it, or says why it cannot
    done += static_cast<std::size_t>(count);
    if (done % block_bytes != 0) break;
  }
  read_from(descriptor_, done, std::min(last, size_), to + (done - first));
}

void MappedFile::check_unchanged() const {
  const auto [size, time] = size_and_time(path_, descriptor_);
  if (size != size_) fail(Errc::io, detail::shown(path_), ": expected ", size_, " bytes as when it was opened, found ", size);
  if (time != changed_ns_) fail(Errc::io, detail::shown(path_), ": expected the file as it was when it was opened, found it changed since");
}

void MappedFile::will_need(std::span<const std::byte> part) const noexcept {
  if (part.empty()) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data()) / page_size() * page_size();
  const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size());
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);  // advice: a refusal changes nothing
}

void MappedFile::drop(std::span<const std::byte> part) const noexcept {
  if (part.empty()) return;
  const auto first = reinterpret_cast<std::uintptr_t>(part.data());
  const auto last = reinterpret_cast<std::uintptr_t>(part.data() + part.size());
  const auto begin = (first + page_size() - 1) / page_size() * page_size();
  const auto end = last / page_size() * page_size();
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void MappedFile::forget(std::span<const std::byte> part) const noexcept {
  if (part.empty()) return;
  drop(part);
  (void)::posix_fadvise(descriptor_, part.data() - data_, std::ssize(part), POSIX_FADV_DONTNEED);
}

}  // namespace bantam::inline v0
