// Where tensor storage comes from: definitions of core/memory.hpp.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "bantam/core/error.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/core/once.hpp"

namespace bantam::inline v0 {

namespace detail {

// A transparent huge page of x86-64 and of most aarch64 kernels.
inline constexpr std::size_t huge_page = 2u << 20;

[[noreturn]] BANTAM_ONCE void fail_for_room(std::size_t bytes) {
  fail(Errc::out_of_memory, "memory: expected ", bytes, " bytes, there is no room for them");
}

// From here on a block is mapped on its own, and leaves the process when it is given back. malloc does that only until the first such block was freed:
// from then on it takes them from its heap, where the holes between them stay resident.
inline constexpr std::size_t map_threshold = 1u << 20;

BANTAM_ONCE std::shared_ptr<std::byte> mapped(void* memory, std::size_t bytes) {
  return {static_cast<std::byte*>(memory), [bytes](std::byte* p) { munmap(p, bytes); }};
}

BANTAM_ONCE void* map_anonymous(std::size_t bytes) {
  void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) fail_for_room(bytes);
  return p;
}

/// From a huge page on. What is left behind the last whole one lies in ordinary pages: nothing is rounded up.
BANTAM_ONCE std::byte* map_huge(std::size_t bytes) {
  // Room for a boundary of huge pages; both ends are given back.
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), wanted = round_up(bytes, page);
  auto* begin = static_cast<std::byte*>(map_anonymous(wanted + huge_page));
  const std::size_t lead = (huge_page - reinterpret_cast<std::uintptr_t>(begin) % huge_page) % huge_page;
  if (lead != 0) munmap(begin, lead);
  if (huge_page - lead != 0) munmap(begin + lead + wanted, huge_page - lead);
  begin += lead;
  madvise(begin, bytes / huge_page * huge_page, MADV_HUGEPAGE);  // advice: where it is refused, ordinary pages serve
  return begin;
}

/// What a LargeVector takes for so many bytes: a last huge page that they fill by half is whole.
inline std::size_t large_size(std::size_t bytes) noexcept { return bytes % huge_page >= huge_page / 2 ? round_up(bytes, huge_page) : bytes; }

BANTAM_ONCE void* allocate_large(std::size_t bytes) {
  const std::size_t size = large_size(bytes);
  if (size < huge_page) return ::operator new(bytes);
  void* const memory = ::operator new(size, std::align_val_t{huge_page});
  madvise(memory, size / huge_page * huge_page, MADV_HUGEPAGE);  // advice, as above
  return memory;
}

BANTAM_ONCE void release_large(void* memory, std::size_t bytes) noexcept {
  if (large_size(bytes) < huge_page) return ::operator delete(memory);
  ::operator delete(memory, std::align_val_t{huge_page});
}

BANTAM_ONCE std::mutex host_mutex;
BANTAM_ONCE StorageAllocator host;  // guarded by host_mutex

BANTAM_ONCE StorageAllocator storage_allocator() {
  const std::scoped_lock lock(host_mutex);
  return host;
}

}  // namespace detail

BANTAM_ONCE void set_storage_allocator(const StorageAllocator& allocator) {
  const std::scoped_lock lock(detail::host_mutex);
  detail::host = allocator;
}

BANTAM_ONCE std::shared_ptr<std::byte> allocate_storage(std::size_t bytes) {
  if (bytes > (std::size_t{1} << 47)) fail(Errc::out_of_memory, "memory: ", bytes, " bytes are more than an address space holds");
  const StorageAllocator given = detail::storage_allocator();
  if (given.allocate != nullptr) {
    const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), storage_alignment);
    void* p = given.allocate(size, storage_alignment, given.user);
    if (p == nullptr) detail::fail_for_room(bytes);
    std::memset(p, 0, size);
    return {static_cast<std::byte*>(p), [given, size](std::byte* q) { given.release(q, size, given.user); }};
  }
  if (bytes >= detail::huge_page) return detail::mapped(detail::map_huge(bytes), bytes);
  if (bytes >= detail::map_threshold) return detail::mapped(detail::map_anonymous(bytes), bytes);
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), storage_alignment);
  void* p = std::aligned_alloc(storage_alignment, size);
  if (p == nullptr) detail::fail_for_room(bytes);
  std::memset(p, 0, size);
  return {static_cast<std::byte*>(p), [](std::byte* q) { std::free(q); }};
}

BANTAM_ONCE void StorageArena::reserve() {
  pieces_.reserve(div_up(left_, piece_bytes));
  std::byte* const begin = detail::map_huge(left_);
  for (std::size_t at = 0; at < left_; at += piece_bytes) pieces_.push_back(detail::mapped(begin + at, std::min(piece_bytes, left_ - at)));
}

BANTAM_ONCE std::shared_ptr<std::byte> StorageArena::allocate(std::size_t bytes) {
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), block_alignment);
  if (pieces_.empty() && (left_ < detail::huge_page || detail::storage_allocator().allocate != nullptr)) left_ = 0;
  if (bytes > left_ || size > left_) return allocate_storage(bytes);  // both: rounding may overflow
  if (pieces_.empty()) reserve();
  const std::size_t at = std::exchange(used_, used_ + size);
  left_ -= size;
  // A block keeps the pieces that it lies in.
  using Pieces = std::vector<std::shared_ptr<std::byte>>;
  const auto first = pieces_.begin() + static_cast<std::ptrdiff_t>(at / piece_bytes);
  const auto kept = std::make_shared<const Pieces>(first, pieces_.begin() + static_cast<std::ptrdiff_t>((used_ - 1) / piece_bytes + 1));
  return {kept, first->get() + at % piece_bytes};
}

}  // namespace bantam::inline v0
