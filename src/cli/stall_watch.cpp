// Looking now and then.
#include "stall_watch.hpp"

#include <chrono>

#include "bantam/core/message.hpp"
#include "bantam/io/file.hpp"
#include "output.hpp"

namespace bantam::cli {

StallWatch::StallWatch() : thread_([this] { watch(); }) {}

StallWatch::~StallWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ending_.notify_all();
  thread_.join();
}

void StallWatch::watch() {
  // Longer than a drive that works takes for anything, shorter than people wonder.
  constexpr double worth_saying = 3;
  bool said = false;
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, std::chrono::milliseconds(250), [this] { return ends_; })) {
    const double stalled = stalled_read_seconds();
    const bool stalls = stalled >= worth_saying;
    if (stalls && !said) note(message("bantam: nothing has come from the drive for ", static_cast<int>(stalled), " s, still waiting"));
    said = stalls;
  }
}

}  // namespace bantam::cli
