// Opens bytes as a file and judges how they are refused.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "bantam/io/tensor_source.hpp"
#include "support.hpp"

namespace bantam::test {

/// One file that must be refused, and words that its message must have.
struct HostileCase {
  std::string name;
  std::string bytes;
  std::string words;
};

/// Files named by `ending`, opened by `open`, in a folder of their own.
template <class Open>
class HostileFile {
 public:
  HostileFile(const std::string& name, Open open) : path_(folder_ / name), open_(std::move(open)) {}

  auto open(std::string_view bytes) {
    // A new file each time: file systems flush one that is truncated and written again.
    std::filesystem::remove(path_);
    write_file(path_, bytes);
    return open_(path_);
  }
  [[nodiscard]] std::string error(std::string_view bytes) {
    return error_of([&] { static_cast<void>(open(bytes)); });
  }

  /// Refused in one line that names the file and has the words, within a second.
  void refuse(const HostileCase& wanted) {
    INFO(wanted.name);
    const auto start = std::chrono::steady_clock::now();
    const std::string text = error(wanted.bytes);
    const auto elapsed = std::chrono::steady_clock::now() - start;
    CHECK(elapsed < std::chrono::seconds(1));
    CHECK_MESSAGE(text.find(path_.filename().string()) != text.npos, "does not name the file: ", text);
    CHECK_MESSAGE(text.find(wanted.words) != text.npos, "expected '", wanted.words, "' in: ", text);
  }

 private:
  TemporaryFolder folder_;
  std::filesystem::path path_;
  Open open_;
};

/// Reads every byte that a source offers: ranges beyond the file would crash here.
inline unsigned touch_all(const TensorSource& source) {
  unsigned sum = 0;
  for (const TensorEntry& tensor : source.tensors()) {
    for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
    CHECK(source.find(tensor.name) == &tensor);
  }
  return sum;
}

}  // namespace bantam::test
