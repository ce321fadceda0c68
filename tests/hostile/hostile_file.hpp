// Opens bytes as a file and judges how they are refused.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "bantam/io/tensor_source.hpp"
#include "bantam/text/tokenizer.hpp"
#include "support.hpp"

namespace bantam::test {

/// One file that must be refused, and words that its message must have.
struct HostileCase {
  std::string name;
  std::string bytes;
  std::string words;
};

/// Seconds of processor time since some start: other work on the machine does not count.
inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

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

  /// Refused in one line that names the file and has the words, within a second and one more per megabyte (sanitizers
  /// take half of that, an ordinary build a fiftieth; quadratic work on the files of the tests takes hours).
  void refuse(const HostileCase& wanted) {
    INFO(wanted.name);
    const double start = cpu_seconds();
    const std::string text = error(wanted.bytes);
    CHECK(cpu_seconds() - start < 1 + 1e-6 * static_cast<double>(wanted.bytes.size()));
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

/// Why a tokenizer's file is refused.
inline std::string refused_tokenizer(const std::string& name, std::string_view bytes) {
  const TemporaryFolder folder;
  write_file(folder / name, bytes);
  return error_of([&] { (void)Tokenizer::from_file(folder / name); });
}

}  // namespace bantam::test
