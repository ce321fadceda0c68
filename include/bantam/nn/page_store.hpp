// Where pages of a sequence's state go that memory has no room for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bantam/core/memory.hpp"

namespace bantam::inline v0::nn {

/// A part of a page that is read by itself: what one layer has of it.
struct PagePart {
  std::int64_t offset = 0;  ///< in a page in memory
  std::int64_t bytes = 0;
  bool operator==(const PagePart&) const = default;
};

/// Keeps pages of one shape outside of memory. From any thread, several at a time.
class PageStore {
 public:
  /// A page that is there. Its place is free for others when the last owner lets go of it.
  using Page = std::shared_ptr<const std::int64_t>;
  /// A part of several pages on its way into memory. The end of it returns when nobody writes there any more.
  class Read {
   public:
    Read() = default;
    virtual ~Read() = default;
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;
    /// Returns when all of it is there. Throws what reading threw.
    virtual void wait() = 0;
  };
  struct Counts {
    std::int64_t stored_bytes = 0;  ///< that are there now
    std::int64_t read_bytes = 0;
    double read_seconds = 0;    ///< while something was read
    double waited_seconds = 0;  ///< while somebody waited for it
  };
  /// What places in memory, and steps between pages there, are multiples of.
  static constexpr std::int64_t block_bytes = 4096;
  [[nodiscard]] static constexpr std::int64_t step_of(std::int64_t bytes) noexcept { return round_up(bytes, block_bytes); }

  PageStore() = default;
  virtual ~PageStore() = default;
  PageStore(const PageStore&) = delete;
  PageStore& operator=(const PageStore&) = delete;

  /// Writes pages. Throws io and out_of_memory; then none of them is there.
  [[nodiscard]] virtual std::vector<Page> put(std::span<const std::byte* const> pages) = 0;
  /// Reads all parts of a page. Throws io and out_of_memory.
  virtual void get(const Page& page, std::byte* to) = 0;
  /// Begins to read one part of several pages to `to`, a multiple of block_bytes, each step_of() of its bytes behind the one before. Whoever asks
  /// keeps the pages as long as the read. Throws out_of_memory.
  [[nodiscard]] virtual std::unique_ptr<Read> read(std::size_t part, std::span<const Page> pages, std::byte* to) = 0;
  [[nodiscard]] virtual Counts counts() const = 0;
};

/// Memory for reads around the system's page cache: it begins at a multiple of PageStore::block_bytes. Throws out_of_memory.
[[nodiscard]] inline std::shared_ptr<std::byte> allocate_blocks(std::size_t bytes) {
  constexpr auto block = static_cast<std::size_t>(PageStore::block_bytes);
  // Large ones begin at a huge page; an allocator that was given may do otherwise.
  const std::shared_ptr<std::byte> all = allocate_storage(bytes);
  if (reinterpret_cast<std::uintptr_t>(all.get()) % block == 0) return all;
  const std::shared_ptr<std::byte> more = allocate_storage(bytes + block);
  return {more, more.get() + (block - reinterpret_cast<std::uintptr_t>(more.get()) % block) % block};
}

/// What allocate_storage maps large blocks in.
inline constexpr std::int64_t huge_page_bytes = 2 << 20;

}  // namespace bantam::inline v0::nn
