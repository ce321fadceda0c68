// XXH3-64 of bytes that come part by part.
#pragma once

#include <cstdint>
#include <span>

#define XXH_INLINE_ALL
#if !defined(NDEBUG)
#define XXH_NO_INLINE_HINTS 1  // -Og does not inline all that xxHash insists on
#endif
#include <xxhash.h>

namespace bantam::inline v0 {

/// What XXH3_64bits() gives for all parts one behind the other, however they were cut.
class StreamHash {
 public:
  StreamHash() noexcept { XXH3_64bits_reset(&state_); }
  void add(std::span<const std::byte> part) noexcept { XXH3_64bits_update(&state_, part.data(), part.size()); }
  [[nodiscard]] std::uint64_t value() const noexcept { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_{};
};

}  // namespace bantam::inline v0
