// Bytes of a file in memory of their own.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "bantam/core/memory.hpp"
#include "bantam/io/file.hpp"
#include "bantam/model/piece_source.hpp"

namespace bantam::inline v0 {

/// Memory that pieces of files are read to, a huge page each: a drive writes to that in one go. To ordinary pages it writes 4 KiB at a time, unless they happen to
/// lie side by side, which took four times as long on a virtual machine. To touch a page for the first time takes longer than to read it, so those that are
/// done with are kept for the next.
class ReadBuffers {
 public:
  static constexpr std::size_t bytes = std::size_t{2} << 20;
  struct Release {
    std::size_t size = 0;
    void operator()(std::byte* memory) const noexcept { detail::release_large(memory, size); }
  };
  /// Of the process, not of a StorageAllocator: it may be kept until the process ends, when the allocator's owner is gone.
  using Memory = std::unique_ptr<std::byte, Release>;
  [[nodiscard]] static Memory allocate(std::size_t size) { return {static_cast<std::byte*>(detail::allocate_large(size)), Release{size}}; }

  [[nodiscard]] Memory take() {
    if (const std::unique_lock lock(mutex_, std::try_to_lock); lock && !free_.empty()) {
      Memory last = std::move(free_.back());
      free_.pop_back();
      return last;
    }
    return allocate(bytes);
  }
  void give_back(Memory memory) noexcept {
    if (const std::unique_lock lock(mutex_, std::try_to_lock); lock && free_.size() < free_.capacity()) free_.push_back(std::move(memory));
  }
  /// Of the process.
  [[nodiscard]] static ReadBuffers& shared() {
    static ReadBuffers all;
    return all;
  }

 private:
  /// As many as readers of a stream there are at most.
  ReadBuffers() { free_.reserve(8); }
  std::mutex mutex_;  ///< tried, never waited for: a child of fork() may find it locked for ever
  std::vector<Memory> free_;
};

/// Read, never mapped. Throws what reading throws.
class FilePart {
 public:
  FilePart(const MappedFile& file, std::span<const std::byte> part, Reading reading) : is_shared_(part.size() + 3 * block <= ReadBuffers::bytes) {
    memory_ = is_shared_ ? ReadBuffers::shared().take() : ReadBuffers::allocate(part.size() + 3 * block);
    std::byte* to = memory_.get();
    try {
      if (reading == Reading::direct) {
        // Blocks of the file go to whole blocks of memory.
        const auto address = reinterpret_cast<std::uintptr_t>(to);
        to += round_up<std::uintptr_t>(address, block) - address;
        file.read_blocks(part, to);
        to += static_cast<std::size_t>(part.data() - file.bytes().data()) % block;
      } else {
        file.read(part, to);
      }
    } catch (...) {
      leave();
      throw;
    }
    bytes_ = {to, part.size()};
  }
  ~FilePart() { leave(); }
  FilePart(const FilePart&) = delete;
  FilePart& operator=(const FilePart&) = delete;
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t block = MappedFile::block_bytes;
  void leave() noexcept {
    if (is_shared_) ReadBuffers::shared().give_back(std::move(memory_));
  }
  bool is_shared_;
  ReadBuffers::Memory memory_;
  std::span<const std::byte> bytes_;
};

}  // namespace bantam::inline v0
