// Where tensor storage comes from: definitions of core/memory.hpp.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "bantam/core/error.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/core/once.hpp"

namespace bantam::inline v0 {

namespace detail {

// A transparent huge page of x86-64 and of most aarch64 kernels.
inline constexpr std::size_t huge_page = 2u << 20;
// Below this the page that rounding up wastes is no longer small against the block.
inline constexpr std::size_t huge_threshold = 2 * huge_page;

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

BANTAM_ONCE std::shared_ptr<std::byte> map_huge(std::size_t bytes) {
  // One page more than needed, so that a 2 MiB boundary lies inside; both ends are given back.
  const std::size_t wanted = round_up(bytes, huge_page);
  auto* begin = static_cast<std::byte*>(map_anonymous(wanted + huge_page));
  const std::size_t lead = (huge_page - reinterpret_cast<std::uintptr_t>(begin) % huge_page) % huge_page;
  if (lead != 0) munmap(begin, lead);
  if (huge_page - lead != 0) munmap(begin + lead + wanted, huge_page - lead);
  begin += lead;
  madvise(begin, wanted, MADV_HUGEPAGE);  // advice: where it is refused, ordinary pages serve
  return mapped(begin, wanted);
}

BANTAM_ONCE std::mutex host_mutex;
BANTAM_ONCE StorageAllocator host;  // guarded by host_mutex

}  // namespace detail

BANTAM_ONCE void set_storage_allocator(const StorageAllocator& allocator) {
  const std::scoped_lock lock(detail::host_mutex);
  detail::host = allocator;
}

BANTAM_ONCE std::shared_ptr<std::byte> allocate_storage(std::size_t bytes) {
  if (bytes > (std::size_t{1} << 47)) fail(Errc::out_of_memory, "memory: ", bytes, " bytes are more than an address space holds");
  const StorageAllocator given = [] {
    const std::scoped_lock lock(detail::host_mutex);
    return detail::host;
  }();
  if (given.allocate != nullptr) {
    const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), storage_alignment);
    void* p = given.allocate(size, storage_alignment, given.user);
    if (p == nullptr) detail::fail_for_room(bytes);
    std::memset(p, 0, size);
    return {static_cast<std::byte*>(p), [given, size](std::byte* q) { given.release(q, size, given.user); }};
  }
  if (bytes >= detail::huge_threshold) return detail::map_huge(bytes);
  if (bytes >= detail::map_threshold) return detail::mapped(detail::map_anonymous(bytes), bytes);
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), storage_alignment);
  void* p = std::aligned_alloc(storage_alignment, size);
  if (p == nullptr) detail::fail_for_room(bytes);
  std::memset(p, 0, size);
  return {static_cast<std::byte*>(p), [](std::byte* q) { std::free(q); }};
}

}  // namespace bantam::inline v0
