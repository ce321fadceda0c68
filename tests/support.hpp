// Helpers that every test may use: where the shared data lies, temporary folders, expected errors.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "bantam/core/error.hpp"
#include "limits.hpp"

namespace bantam::test {

/// The path of a file of the shared test data; empty where it is absent.
inline std::filesystem::path shared_data(const std::string& name) {
  std::filesystem::path path = std::filesystem::path(BANTAM_SHARED_DATA) / name;
  return std::filesystem::exists(path) ? path : std::filesystem::path{};
}

/// Leaves the test case, saying so, where the shared data is absent.
#define BANTAM_NEED_SHARED(variable, name)                            \
  const std::filesystem::path variable = bantam::test::shared_data(name); \
  if (variable.empty()) {                                             \
    MESSAGE("skipped: no shared data: ", std::string(name));          \
    return;                                                           \
  }

/// Where a test puts its files. In memory unless it is about drives: each of thousands of small files is written through to a drive, on which tests of
/// models spent half of their time. Sanitized and emulated tests use no drive at all.
enum class Place { memory, drive };

/// In memory where it has room and nobody says otherwise (TMPDIR).
inline std::filesystem::path temporary_place(Place place = Place::memory) {
  const std::filesystem::path memory = "/dev/shm";
  constexpr std::uintmax_t room = std::uintmax_t{4} << 30;
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(memory, error);
  const bool wanted = place == Place::memory || quick();
  return wanted && std::getenv("TMPDIR") == nullptr && !error && space.available >= room ? memory : std::filesystem::temp_directory_path();
}

/// A folder of its own that disappears with the object.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(Place place = Place::memory) {
    std::string pattern = (temporary_place(place) / "bantam-test-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// How many files and folders a folder holds.
inline std::size_t entries(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

/// Checks that a text contains a part, and says both where it does not.
inline bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  CHECK_MESSAGE(found, "expected '", part, "' in '", text, "'");
  return found;
}

/// The message of the bantam::Error that `f` throws; fails the test if it throws none, or one of several lines.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK_MESSAGE(text.find('\n') == std::string::npos, "message is not one line: ", text);
    CHECK_FALSE(text.empty());
    return text;
  }
  FAIL_CHECK("no bantam::Error was thrown");
  return {};
}

}  // namespace bantam::test
