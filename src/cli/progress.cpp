// Drawing the bar.
#include "progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "bantam/core/message.hpp"
#include "output.hpp"
#include "signals.hpp"

namespace bantam::cli {

namespace {

std::size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string in_time(double seconds) {
  const auto s = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9) + 0.5);
  if (s < 60) return message(s, " s");
  if (s < 3600) return message(s / 60, " min ", s % 60, " s");
  return message(s / 3600, " h ", s % 3600 / 60, " min");
}

void write_error(std::string_view text) {
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

ProgressBar::ProgressBar(bool wanted) : drawn_(wanted && errors_are_terminal()) {}

ProgressBar::~ProgressBar() {
  if (!drawn_ || last_ == std::chrono::steady_clock::time_point{}) return;
  write_error("\r\x1b[K");
  set_open_line(false);
}

bool ProgressBar::is_due(bool last) {
  const auto now = std::chrono::steady_clock::now();
  // Ten times a second is as much as an eye follows.
  if (!drawn_ || (!last && now - last_ < std::chrono::milliseconds(100))) return false;
  last_ = now;
  return true;
}

void ProgressBar::show(std::int64_t done, std::int64_t total, std::string_view what, double seconds_left) {
  if (is_due(done == total)) draw(done, total, message(done, "/", total, " ", printable(what)), seconds_left);
}

void ProgressBar::show_bytes(std::int64_t done, std::int64_t total) {
  if (!is_due(done == total)) return;
  std::ostringstream text;
  const auto gigabytes = [](std::int64_t bytes) { return 1e-9 * static_cast<double>(bytes); };
  text << std::fixed << std::setprecision(2) << gigabytes(done) << "/" << gigabytes(total) << " GB";
  if (seconds() > 0) text << " at " << gigabytes(done) / seconds() << " GB/s";
  draw(done, total, text.str(), -1);
}

void ProgressBar::draw(std::int64_t done, std::int64_t total, std::string_view how_far, double seconds_left) {
  if (seconds_left < 0) seconds_left = done > 0 ? seconds() * static_cast<double>(total - done) / static_cast<double>(done) : 0;
  constexpr std::int64_t cells = 24;
  const auto full = static_cast<std::size_t>(total > 0 ? cells * done / total : 0);
  std::string line = message("[", std::string(full, '#'), std::string(cells - full, '.'), "] ", how_far, ", ", in_time(seconds_left), " left");
  // A line that wraps could not be wiped.
  line.resize(std::min(line.size(), terminal_width() - 1));
  set_open_line(true);
  write_error("\r" + line + "\x1b[K");
}

}  // namespace bantam::cli
