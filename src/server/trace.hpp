// What happened when, as Chrome's and Perfetto's viewers draw it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

#include "bantam/session/scheduler.hpp"
#include "server/request_record.hpp"

namespace bantam::server {

/// The last events, in bounded memory. Safe from any thread.
class Trace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Some minutes of a busy server; to write them down takes a tenth of a second.
  static constexpr std::size_t most_events = 20000;

  explicit Trace(bool is_on) : watchers_(is_on ? 1 : 0) {}
  /// Events are kept while anybody watches.
  void watch();
  void unwatch();

  /// A request, with its phases inside.
  void add(const RequestRecord& record);
  void add_pass(const SchedulerPass& pass);

  /// {"traceEvents": [...]}: those that ended at `since` or later.
  [[nodiscard]] std::string json(Time since) const;
  struct Counts {
    std::size_t kept = 0;
    std::uint64_t dropped = 0;  ///< older ones that made room
  };
  [[nodiscard]] Counts counts() const;

 private:
  struct Event {
    std::string_view name;
    Time begin, end;
    std::uint64_t request = 0;  ///< 0: a step
    std::int64_t prompt_tokens = 0, tokens = 0;
    int status = 0;
    std::string about = {};     ///< endpoint and model
    StreamStats weights = {};   ///< of a step
  };
  void keep(Event event);

  mutable std::mutex mutex_;
  std::deque<Event> events_;
  int watchers_;
  std::uint64_t dropped_ = 0;
};

}  // namespace bantam::server
