// A file with a line for each request, and older ones beside it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace bantam::server {

struct RequestLogOptions {
  std::string path = {};                       ///< empty: no log
  std::uint64_t most_bytes = std::uint64_t{64} << 20;  ///< of a file; then it becomes path.1, that path.2, and so on
  std::chrono::seconds most_age{24 * 3600};    ///< in the same way
  int kept = 7;                                ///< older files
  bool has_texts = false;                      ///< lines have what was asked and answered, too
};

/// Nobody waits for it: lines are written by a thread of its own, and are lost, and counted, where that cannot write, or not as fast as they
/// come. It tells `note` once when it begins to fail, and tries again. Lines are whole. Safe from any thread.
class RequestLog {
 public:
  RequestLog(RequestLogOptions options, std::function<void(std::string_view)> note);
  /// Writes what is waiting.
  ~RequestLog();
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  void add(std::string line);

  struct Counts {
    std::uint64_t written = 0, lost = 0, files = 0;  ///< lines, and files that were put aside
  };
  [[nodiscard]] Counts counts() const;

 private:
  void run();
  [[nodiscard]] bool write(const std::string& line);
  [[nodiscard]] bool open();
  void close();
  void put_aside();
  void fail(int error);

  // As much as some bursts bring; beyond, lines are lost.
  static constexpr std::size_t most_waiting = std::size_t{16} << 20;
  static constexpr std::chrono::seconds retry{1};

  const RequestLogOptions options_;
  const std::function<void(std::string_view)> note_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  std::size_t waiting_bytes_ = 0;
  bool ends_ = false;
  Counts counts_;
  // Of the thread alone.
  int file_ = -1;
  bool is_regular_ = false, fails_ = false;
  std::uint64_t bytes_ = 0;
  std::chrono::system_clock::time_point opened_{};
  std::chrono::steady_clock::time_point again_{};
  std::thread thread_;
};

}  // namespace bantam::server
