// A cursor over untrusted little-endian bytes that never reads past them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "bantam/core/error.hpp"
#include "bantam/io/file.hpp"

namespace bantam::inline v0::detail {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read as they are");

/// Reads the file, not its mapping: one that another program cuts short meanwhile is an error, where a lost page would end the process.
class ByteReader {
 public:
  /// `name` is the file as messages show it.
  ByteReader(const MappedFile& file, std::string name) : file_(file), name_(std::move(name)) {}

  [[nodiscard]] std::size_t position() const noexcept { return position_; }
  [[nodiscard]] std::size_t remaining() const noexcept { return file_.bytes().size() - position_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// The next `size` bytes, until the next call; `what` names them in the message when the file ends before.
  [[nodiscard]] std::span<const std::byte> take(std::uint64_t size, std::string_view what) {
    if (size > remaining()) {
      fail(Errc::corrupt, name_, ": offset ", position_, ": expected ", size, " bytes of ", what, ", the file has ",
           remaining(), " left");
    }
    if (position_ + size > window_begin_ + window_bytes_) fill(static_cast<std::size_t>(size));
    const std::span part(window_.get() + (position_ - window_begin_), static_cast<std::size_t>(size));
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

  /// A 64-bit length and as many bytes, at most `longest`; `place` begins the message about more.
  [[nodiscard]] std::string text(std::string_view what, std::uint64_t longest, std::string_view place) {
    const auto size = read<std::uint64_t>(what);
    if (size > longest && size <= remaining()) fail(Errc::corrupt, place, ": expected at most ", longest, " bytes, found ", size);
    const auto part = take(size, what);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  [[nodiscard]] std::string text(std::string_view what) { return text(what, ~std::uint64_t{0}, name_); }

 private:
  static constexpr std::size_t usual_window = 256 << 10;

  /// Moves the window to the position, over `size` bytes at least.
  void fill(std::size_t size) {
    const std::size_t bytes = std::min(std::max(size, usual_window), remaining());
    if (bytes > window_room_) {
      window_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      window_room_ = bytes;
    }
    file_.read(file_.bytes().subspan(position_, bytes), window_.get());
    window_begin_ = position_;
    window_bytes_ = bytes;
  }

  const MappedFile& file_;
  std::string name_;
  std::size_t position_ = 0;
  std::unique_ptr<std::byte[]> window_;  ///< bytes of the file from window_begin_ on
  std::size_t window_begin_ = 0, window_bytes_ = 0, window_room_ = 0;
};

}  // namespace bantam::inline v0::detail
