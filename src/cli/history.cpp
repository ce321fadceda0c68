// Reading and appending remembered lines.
#include "history.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "bantam/core/error.hpp"
#include "bantam/io/file.hpp"
#include "output.hpp"
#include "text/utf8.hpp"

namespace bantam::cli {

namespace {

// A thousand long messages; what is beyond was not written here.
constexpr std::size_t largest_history = 4 << 20;
constexpr std::size_t longest_line = 4096;

std::vector<std::string> remembered_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    // Control characters would go to the terminal when the line is shown.
    const bool plain = std::ranges::none_of(line, [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\t'; });
    if (!line.empty() && line.size() <= longest_line && plain) lines.push_back(utf8::repaired(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// A descriptor of the file, which is made when it is not there; -1 where that is not possible or it is no file.
int open_private(const std::filesystem::path& file, int flags) {
  const int descriptor = ::open(file.c_str(), flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  struct stat status {};
  if (descriptor >= 0 && (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || ::fchmod(descriptor, 0600) != 0)) {
    ::close(descriptor);
    return -1;
  }
  return descriptor;
}

}  // namespace

std::filesystem::path history_path() {
  const auto variable = [](const char* name) -> std::filesystem::path {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  std::filesystem::path state = variable("XDG_STATE_HOME");
  if (!state.is_absolute()) {
    const std::filesystem::path home = variable("HOME");
    if (!home.is_absolute()) return {};
    state = home / ".local" / "state";
  }
  return state / "bantam" / "chat_history";
}

std::vector<std::string> read_history(const std::filesystem::path& file) {
  std::vector<std::string> lines;
  try {
    lines = remembered_lines(read_text_file(file, largest_history));
  } catch (const Error&) {
    return {};
  }
  if (lines.size() > most_remembered) lines.erase(lines.begin(), lines.end() - most_remembered);
  return lines;
}

void remember(const std::filesystem::path& file, std::string_view line) {
  if (line.size() > longest_line) return;
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  const int descriptor = open_private(file, O_WRONLY | O_APPEND);
  if (descriptor < 0) return;
  const std::string text = std::string(line) + "\n";
  [[maybe_unused]] const auto written = ::write(descriptor, text.data(), text.size());
  ::close(descriptor);
  // Seldom: at most once a thousand lines.
  const auto size = std::filesystem::file_size(file, ignored);
  if (ignored || size < 64 * most_remembered) return;
  try {
    const std::string all = read_text_file(file, largest_history);
    if (static_cast<std::size_t>(std::ranges::count(all, '\n')) < 2 * most_remembered) return;
    std::string kept;
    for (const std::string& old : read_history(file)) kept += old + "\n";
    write_file(file, kept);
    std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, ignored);
  } catch (const Error&) {
    // A file that is too large to be read is begun anew.
    std::filesystem::remove(file, ignored);
  }
}

}  // namespace bantam::cli
