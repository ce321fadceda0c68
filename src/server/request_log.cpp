// Writing lines where nobody waits for them.
#include "server/request_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "bantam/core/error.hpp"

namespace bantam::server {

RequestLog::RequestLog(RequestLogOptions options, std::function<void(std::string_view)> note) : options_(std::move(options)), note_(std::move(note)) {
  if (!options_.path.empty()) thread_ = std::thread([this] { run(); });
}

RequestLog::~RequestLog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  close();
}

void RequestLog::add(std::string line) {
  if (options_.path.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_bytes_ + line.size() > most_waiting) {
      ++counts_.lost;
      return;
    }
    waiting_bytes_ += line.size();
    waiting_.push_back(std::move(line));
  }
  changed_.notify_one();
}

RequestLog::Counts RequestLog::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void RequestLog::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::string line = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= line.size();
    lock.unlock();
    const bool written = write(line + '\n');
    lock.lock();
    ++(written ? counts_.written : counts_.lost);
  }
}

bool RequestLog::write(const std::string& line) {
  if (!open()) return false;
  const bool is_full = bytes_ + line.size() > options_.most_bytes || std::chrono::system_clock::now() - opened_ > options_.most_age;
  if (is_regular_ && bytes_ > 0 && is_full) {
    put_aside();
    if (!open()) return false;
  }
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t count = ::write(file_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  if (done < line.size()) {
    const int error = errno;
    // Half a line would spoil the next one.
    if (is_regular_ && done > 0) (void)!::ftruncate(file_, static_cast<off_t>(bytes_));
    fail(error);
    return false;
  }
  bytes_ += done;
  fails_ = false;
  return true;
}

bool RequestLog::open() {
  if (file_ >= 0) return true;
  if (fails_ && std::chrono::steady_clock::now() < again_) return false;
  // Not to wait: a pipe may have no reader.
  file_ = ::open(options_.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, S_IRUSR | S_IWUSR);
  struct stat about {};
  if (file_ < 0 || ::fstat(file_, &about) != 0) {
    fail(errno);
    return false;
  }
  is_regular_ = S_ISREG(about.st_mode);
  bytes_ = is_regular_ ? static_cast<std::uint64_t>(about.st_size) : 0;
  opened_ = std::chrono::system_clock::now();
  if (bytes_ == 0) return true;
  // Of a file that was there nobody knows when it began, but that it was before it was written last.
  opened_ = std::chrono::system_clock::from_time_t(about.st_mtime);
  return true;
}

void RequestLog::close() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

void RequestLog::put_aside() {
  close();
  const auto name = [&](int number) { return std::filesystem::path(options_.path + (number == 0 ? std::string() : message('.', number))); };
  std::error_code missing;
  if (options_.kept == 0) std::filesystem::remove(name(0), missing);
  for (int number = options_.kept; number > 0; --number) std::filesystem::rename(name(number - 1), name(number), missing);
  const std::lock_guard lock(mutex_);
  ++counts_.files;
}

void RequestLog::fail(int error) {
  close();
  again_ = std::chrono::steady_clock::now() + retry;
  if (!std::exchange(fails_, true)) {
    note_(message(printable(options_.path, 4096), ": requests are not logged: ", std::system_category().message(error), "; they are answered all the same"));
  }
}

}  // namespace bantam::server
