// Bytes that come from elsewhere than a file.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace bantam::inline v0 {

/// Puts the next bytes into the span and returns how many, at least one; 0 at the end. What it throws, its reader throws.
using ByteSource = std::function<std::size_t(std::span<std::byte>)>;

/// Bytes in memory as a source. They are borrowed until it is used up.
[[nodiscard]] ByteSource bytes_of(std::span<const std::byte> bytes);

}  // namespace bantam::inline v0
