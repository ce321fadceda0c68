// Bytes of a file in memory of their own.
#pragma once

#include <memory>
#include <span>

#include "bantam/core/memory.hpp"
#include "bantam/io/file.hpp"
#include "bantam/model/piece_source.hpp"

namespace bantam::inline v0 {

/// Read, never mapped. Throws what reading throws.
class FilePart {
 public:
  FilePart(const MappedFile& file, std::span<const std::byte> part, Reading reading) : memory_(std::make_unique_for_overwrite<std::byte[]>(part.size() + 3 * block)) {
    std::byte* to = memory_.get();
    if (reading == Reading::direct) {
      // Blocks of the file go to whole blocks of memory.
      const auto address = reinterpret_cast<std::uintptr_t>(to);
      to += round_up<std::uintptr_t>(address, block) - address;
      file.read_blocks(part, to);
      to += static_cast<std::size_t>(part.data() - file.bytes().data()) % block;
    } else {
      file.read(part, to);
    }
    bytes_ = {to, part.size()};
  }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t block = MappedFile::block_bytes;
  std::unique_ptr<std::byte[]> memory_;
  std::span<const std::byte> bytes_;
};

}  // namespace bantam::inline v0
