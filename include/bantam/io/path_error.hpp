// Errors that know the file they are about.
#pragma once

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

/// An Error about a file or folder: which one, for callers that report files in their own way.
class PathError : public Error {
 public:
  PathError(Errc code, const std::string& message, std::filesystem::path path, int system_code)
      : Error(code, message), path_(std::move(path)), system_code_(system_code) {}

  /// As the system knows it, not made safe to print.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// errno, ENOENT where something that was expected in a folder is not there.
  [[nodiscard]] int system_code() const noexcept { return system_code_; }

 private:
  std::filesystem::path path_;
  int system_code_;
};

/// Throws not_found about a path where something was expected and nothing is.
template <class... Args>
[[noreturn]] void fail_missing(std::filesystem::path path, const Args&... args) {
  throw PathError(Errc::not_found, message(args...), std::move(path), ENOENT);
}

}  // namespace bantam::inline v0
