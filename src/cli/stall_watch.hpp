// A word about drives that do not answer.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace bantam::cli {

/// While it exists, says on standard error when a file has been waited for some seconds of which nothing comes: a disk that wakes up, a network that is gone.
/// Nothing can be done about it but wait.
class StallWatch {
 public:
  StallWatch();
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable ending_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace bantam::cli
