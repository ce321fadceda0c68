// Writing to the standard streams.
#include "output.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "bantam/core/error.hpp"
#include "bantam/io/file.hpp"
#include "signals.hpp"

namespace bantam::cli {

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(STDOUT_FILENO, text.data(), text.size());
    if (done >= 0) {
      text.remove_prefix(static_cast<std::size_t>(done));
      continue;
    }
    const int error = errno;
    if (error == EPIPE) throw ClosedPipe();
    if (error == EINTR) {
      if (interrupted() != 0) throw Interrupted();
      continue;
    }
    if (error == EAGAIN) {
      pollfd ready{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&ready, 1, -1);
      continue;
    }
    fail(Errc::io, "standard output: cannot write: ", std::generic_category().message(error));
  }
}

void print_json(const Json& json) { print(json.dump({.replace_invalid = true}) + "\n"); }

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void note(std::string_view line) {
  const std::string text = message(line, "\n");
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t done = ::write(STDERR_FILENO, left.data(), left.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;  // there is nobody left to tell
    left.remove_prefix(static_cast<std::size_t>(done));
  }
}

void warn(std::string_view line) { note(message("bantam: warning: ", line)); }

bool output_is_terminal() noexcept { return ::isatty(STDOUT_FILENO) == 1; }
bool errors_are_terminal() noexcept { return ::isatty(STDERR_FILENO) == 1; }
bool input_is_terminal() noexcept { return ::isatty(STDIN_FILENO) == 1; }

std::string json_string(std::string_view text) { return Json(text).dump({.replace_invalid = true, .ascii = true}); }

std::string Table::text() const {
  std::vector<std::size_t> widths(alignment_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      if (i > 0) line += "  ";
      line += alignment_[i] == 'r' ? space + row[i] : row[i] + space;
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace bantam::cli
