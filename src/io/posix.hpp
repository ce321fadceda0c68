// What the file functions share: owned descriptors, and the system's reasons as one-line messages.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "bantam/core/error.hpp"
#include "bantam/core/team.hpp"

namespace bantam::inline v0::detail {

/// A path as messages show it.
[[nodiscard]] inline std::string shown(const std::filesystem::path& path) { return printable(path.string(), 300); }

/// "no space left on device": what the system calls `error`, in lower case.
[[nodiscard]] std::string system_reason(int error);

/// Throws not_found for a missing file, io otherwise: "model.gguf: cannot open: permission denied".
[[noreturn]] void fail_system(const std::filesystem::path& path, std::string_view action, int error);

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) noexcept : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();

  [[nodiscard]] int get() const noexcept { return value_; }
  /// Hands it over: somebody else closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(value_, -1); }

 private:
  int value_;
};

struct OpenFile {
  Descriptor descriptor;
  std::size_t size = 0;
};

/// Opens a regular file for reading; folders, devices, pipes and sockets are invalid_argument.
[[nodiscard]] OpenFile open_regular(const std::filesystem::path& path);

/// Calls f(name) of what a folder holds, in no order, as long as it returns true; of nothing where the folder cannot be read. The standard
/// library's iterator ends the process where memory runs out inside of it.
void for_each_name(const std::filesystem::path& folder, FunctionRef<bool(std::string_view name)> f);

/// Writes all of `bytes` at `offset`: short writes and EINTR are retried. Throws io; invalid_argument without a descriptor.
void write_all(const std::filesystem::path& path, int descriptor, std::uint64_t offset, std::span<const std::byte> bytes);
/// Waits until what was written is on the disk. Throws io.
void sync(const std::filesystem::path& path, int descriptor);

}  // namespace bantam::inline v0::detail
