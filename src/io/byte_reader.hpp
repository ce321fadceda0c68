// A cursor over untrusted little-endian bytes that never reads past them.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "bantam/core/error.hpp"

namespace bantam::inline v0::detail {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read as they are");

class ByteReader {
 public:
  /// `name` is the file as messages show it.
  ByteReader(std::span<const std::byte> bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  [[nodiscard]] std::size_t position() const noexcept { return position_; }
  [[nodiscard]] std::size_t remaining() const noexcept { return bytes_.size() - position_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// The next `size` bytes; `what` names them in the message when the file ends before.
  [[nodiscard]] std::span<const std::byte> take(std::uint64_t size, std::string_view what) {
    if (size > remaining()) {
      fail(Errc::corrupt, name_, ": offset ", position_, ": expected ", size, " bytes of ", what, ", the file has ",
           remaining(), " left");
    }
    const auto part = bytes_.subspan(position_, static_cast<std::size_t>(size));
    position_ += part.size();
    return part;
  }

  template <class T>
    requires std::is_arithmetic_v<T>
  [[nodiscard]] T read(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

  /// A 64-bit length and as many bytes. The view points into the file.
  [[nodiscard]] std::string_view text(std::string_view what) {
    const auto part = take(read<std::uint64_t>(what), what);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
  std::size_t position_ = 0;
};

}  // namespace bantam::inline v0::detail
