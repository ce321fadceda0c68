// Storage aligned for SIMD, large blocks of it in huge pages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

/// One cache line, and one AVX-512 register: every tensor starts at a multiple of this.
inline constexpr std::size_t storage_alignment = 64;

/// Rounds up to a multiple. Both are positive; the caller has checked the sum against overflow.
template <class T>
[[nodiscard]] constexpr T round_up(T value, T multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

template <class T>
[[nodiscard]] constexpr T div_up(T value, T divisor) noexcept {
  return (value + divisor - 1) / divisor;
}

/// Where allocate_storage takes memory from instead of the system. Both are called from any thread.
struct StorageAllocator {
  /// `bytes` at a multiple of `alignment`, or null when there is no room.
  void* (*allocate)(std::size_t bytes, std::size_t alignment, void* user) = nullptr;
  void (*release)(void* memory, std::size_t bytes, void* user) = nullptr;
  void* user = nullptr;
};
/// For blocks made from now on; each goes back to where it came from. A default one: the system's again.
void set_storage_allocator(const StorageAllocator& allocator);

/// `bytes` of zeroed memory aligned to 64 bytes. From 1 MiB on it is mapped on its own and leaves the process with its last owner; from 2 MiB on it asks
/// for pages of that size, as many as it fills, worth 15 to 30 % of read bandwidth. Pages that are never touched cost nothing. Throws out_of_memory.
[[nodiscard]] std::shared_ptr<std::byte> allocate_storage(std::size_t bytes);

/// Memory for blocks that are made one after the other and mostly freed together, such as the matrices of a model: they lie side by side in 2 MiB pages,
/// small ones as well. Pieces of 64 MiB leave the process with the last block in them. Blocks may outlive the arena. One thread at
/// a time.
class StorageArena {
 public:
  /// Blocks start at a multiple of this.
  static constexpr std::size_t block_alignment = 4096;
  static constexpr std::size_t piece_bytes = std::size_t{64} << 20;

  /// expected: the sum of all blocks, each rounded up to block_alignment. What is beyond it has memory of its own, and so has everything where it is
  /// less than 2 MiB or where an allocator was set.
  explicit StorageArena(std::size_t expected) : left_(expected) {}
  StorageArena(const StorageArena&) = delete;
  StorageArena& operator=(const StorageArena&) = delete;

  /// `bytes` of zeroed memory. Throws out_of_memory.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes);

 private:
  void reserve();

  std::vector<std::shared_ptr<std::byte>> pieces_;  ///< side by side
  std::size_t used_ = 0;                            ///< of them
  std::size_t left_;                                ///< of what is expected
};

namespace detail {

/// Memory of a LargeVector, not cleared, by operator new. Throws std::bad_alloc.
[[nodiscard]] void* allocate_large(std::size_t bytes);
void release_large(void* memory, std::size_t bytes) noexcept;

template <class T>
struct LargeAllocator {
  using value_type = T;
  LargeAllocator() = default;
  template <class U>
  LargeAllocator(const LargeAllocator<U>& /*other*/) noexcept {}
  [[nodiscard]] T* allocate(std::size_t n) { return static_cast<T*>(allocate_large(n * sizeof(T))); }
  void deallocate(T* p, std::size_t n) noexcept { release_large(p, n * sizeof(T)); }
  friend bool operator==(const LargeAllocator& /*a*/, const LargeAllocator& /*b*/) noexcept { return true; }
};

}  // namespace detail

/// A vector that may grow large: from 1 MiB on it asks for pages of 2 MiB, and takes up to 1 MiB more to fill the last. The first touch of a page is a fault,
/// which costs more than what is written to an ordinary one (7 us on a virtual machine that was measured). Room that is reserved and never used costs nothing.
template <class T>
using LargeVector = std::vector<T, detail::LargeAllocator<T>>;

/// A fixed-size array of trivial elements, zeroed, aligned to 64 bytes. Moves, leaving nothing behind; copies are spelled
/// clone(). Throws out_of_memory, also for a size whose bytes overflow.
template <class T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size) : storage_(allocate_storage(checked_bytes(size))), size_(size) {}

  [[nodiscard]] T* data() noexcept { return reinterpret_cast<T*>(storage_.get()); }
  [[nodiscard]] const T* data() const noexcept { return reinterpret_cast<const T*>(storage_.get()); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return data()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data()[i]; }
  [[nodiscard]] T* begin() noexcept { return data(); }
  [[nodiscard]] T* end() noexcept { return data() + size_; }
  [[nodiscard]] const T* begin() const noexcept { return data(); }
  [[nodiscard]] const T* end() const noexcept { return data() + size_; }

  [[nodiscard]] AlignedBuffer clone() const {
    AlignedBuffer copy(size_);
    std::copy(begin(), end(), copy.begin());
    return copy;
  }
  /// At least `size` elements; the content is lost when it grows.
  void ensure(std::size_t size) {
    if (size > size_) *this = AlignedBuffer(size);
  }

  AlignedBuffer(AlignedBuffer&& other) noexcept
      : storage_(std::move(other.storage_)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    storage_ = std::move(other.storage_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;

 private:
  static std::size_t checked_bytes(std::size_t size) {
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(size, sizeof(T), &bytes)) {
      fail(Errc::out_of_memory, "memory: ", size, " elements of ", sizeof(T), " bytes are more than an address space holds");
    }
    return bytes;
  }

  std::shared_ptr<std::byte> storage_;
  std::size_t size_ = 0;
};

}  // namespace bantam::inline v0
