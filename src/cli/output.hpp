// Where text goes: results to standard output, everything else to standard error.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "core/number_text.hpp"
#include "io/json.hpp"

namespace bantam::cli {

/// The reader of standard output has gone: the program ends quietly.
struct ClosedPipe : std::exception {};

/// Writes to standard output at once. Throws ClosedPipe, Interrupted while it waits for a reader, Error (io) otherwise.
void print(std::string_view text);
/// One JSON document and the end of its line. Text that is not valid UTF-8 gets U+FFFD for the bytes that are not.
void print_json(const Json& json);
/// A file, whole or not at all (AtomicFile).
void write_file(const std::string& path, std::string_view text);
/// One line to standard error, as it is; nothing is thrown.
void note(std::string_view line);
/// "bantam: warning: ..." to standard error.
void warn(std::string_view line);

[[nodiscard]] bool output_is_terminal() noexcept;
[[nodiscard]] bool errors_are_terminal() noexcept;
[[nodiscard]] bool input_is_terminal() noexcept;

/// Text as a JSON string in ASCII: control bytes and quotes escaped, the quotes around it included.
[[nodiscard]] std::string json_string(std::string_view text);

/// Rows of cells, printed with aligned columns.
class Table {
 public:
  /// One letter a column: 'l' aligns left, 'r' right.
  explicit Table(std::string alignment) : alignment_(std::move(alignment)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] std::string text() const;

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace bantam::cli
