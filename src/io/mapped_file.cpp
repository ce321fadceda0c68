// Read-only mappings of files.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "bantam/io/file.hpp"
#include "io/posix.hpp"

namespace bantam::inline v0 {

namespace {

std::uintptr_t page_size() noexcept {
  static const auto size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  detail::OpenFile file = detail::open_regular(path);
  // The object exists before the mapping does, so that nothing can leak it.
  const std::shared_ptr<MappedFile> mapped(new MappedFile(path, file.descriptor.get()));
  (void)file.descriptor.release();
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
}

void MappedFile::read(std::span<const std::byte> part, std::byte* to) const {
  auto at = static_cast<off_t>(part.data() - data_);
  for (std::size_t left = part.size(); left > 0;) {
    const ssize_t count = ::pread(descriptor_, to, left, at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) detail::fail_system(path_, "read", errno);
    if (count == 0) fail(Errc::io, detail::shown(path_), ": expected ", left, " more bytes at ", at, ", the file ends there now");
    at += count;
    to += count;
    left -= static_cast<std::size_t>(count);
  }
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

}  // namespace bantam::inline v0
