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

MappedFile::MappedFile(std::filesystem::path path, const std::byte* data, std::size_t size)
    : path_(std::move(path)), data_(data), size_(size) {}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const detail::OpenFile file = detail::open_regular(path);
  // The object exists before the mapping does, so that nothing can leak it.
  const std::shared_ptr<MappedFile> mapped(new MappedFile(path, nullptr, 0));
  if (file.size == 0) return mapped;  // the system refuses empty mappings
  void* data = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
  if (data == MAP_FAILED) detail::fail_system(path, "map", errno);
  mapped->data_ = static_cast<const std::byte*>(data);
  mapped->size_ = file.size;
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
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
