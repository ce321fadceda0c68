// Text from outside: files, standard input, lines typed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bantam::cli {

/// The whole of a file, byte for byte; "-" is standard input. Pipes are fine. Throws Error naming the place.
[[nodiscard]] std::string read_input(const std::string& path);

/// How messages call it.
[[nodiscard]] std::string input_name(const std::string& path);

/// Lines of standard input as they come.
class LineReader {
 public:
  /// Without the end of the line; empty at the end of the input.
  [[nodiscard]] std::optional<std::string> next();

 private:
  std::string held_;
  bool ended_ = false;
};

/// Lines without their ends; a last one that is empty is none.
[[nodiscard]] std::vector<std::string> lines_of(std::string_view text);

/// Where a prompt comes from.
struct PromptSource {
  std::optional<std::string> text;
  std::optional<std::string> file;
};

/// The text of -p, -f, or standard input when it is no terminal; UsageError says so when there is none of them.
[[nodiscard]] std::string read_prompt(const PromptSource& source);

}  // namespace bantam::cli
