// Reading text.
#include "input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "bantam/core/error.hpp"
#include "options.hpp"
#include "output.hpp"

namespace bantam::cli {

namespace {

// Token counts of more text would not fit what holds them.
constexpr std::size_t most_bytes = std::size_t{1} << 31;

[[noreturn]] void fail_reading(const std::string& place, std::string_view action, int error) {
  fail(error == ENOENT || error == ENOTDIR ? Errc::not_found : Errc::io, place, ": cannot ", action, ": ",
       std::generic_category().message(error));
}

/// Appends what one read() brings; false at the end.
bool read_more(int descriptor, std::string& text, const std::string& place) {
  char buffer[1 << 16];
  ssize_t got;
  do got = ::read(descriptor, buffer, sizeof buffer);
  while (got < 0 && errno == EINTR);
  if (got < 0) fail_reading(place, "read", errno);
  if (text.size() + static_cast<std::size_t>(got) > most_bytes)
    fail(Errc::unsupported, place, ": expected at most 2 GiB of text, found more");
  text.append(buffer, static_cast<std::size_t>(got));
  return got > 0;
}

}  // namespace

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : printable(path, 4096); }

std::string read_input(const std::string& path) {
  const std::string place = input_name(path);
  std::string text;
  if (path == "-") {
    while (read_more(STDIN_FILENO, text, place)) {
    }
    return text;
  }
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_reading(place, "open", errno);
  struct Closer {
    int descriptor;
    ~Closer() { ::close(descriptor); }
  } closer{descriptor};
  while (read_more(descriptor, text, place)) {
  }
  return text;
}

std::optional<std::string> LineReader::next() {
  std::size_t end;
  while ((end = held_.find('\n')) == std::string::npos && !ended_)
    ended_ = !read_more(STDIN_FILENO, held_, "standard input");
  if (end == std::string::npos && held_.empty()) return std::nullopt;
  std::string line = held_.substr(0, end);
  held_.erase(0, end == std::string::npos ? end : end + 1);
  return line;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string read_prompt(const PromptSource& source) {
  at_most_one(source.text.has_value() + source.file.has_value(), "-p and -f");
  if (source.text) return *source.text;
  if (source.file) return read_input(*source.file);
  if (input_is_terminal()) throw UsageError("expected a prompt: -p TEXT, -f FILE, or text on standard input");
  return read_input("-");
}

}  // namespace bantam::cli
