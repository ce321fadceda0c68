// A circuit breaker: where too much fails or comes too late, new requests are refused at once, for a while.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

namespace bantam::server {

struct BreakerOptions {
  double share = 0;                          ///< of requests that may fail, from 0 to 1; 0: no breaker
  double first_token_s = 0;                  ///< a first token that comes later is a failure; 0: never
  std::chrono::seconds window{30};           ///< over which they are counted
  std::chrono::seconds rest{10};             ///< from opening to the first probe
  std::uint64_t least = 10;                  ///< requests in a window before it says anything
  int probes = 3;                            ///< that must go well, one after the other, before all are let in again
};

/// Closed, it counts. Open, it refuses. Half open, it lets one request at a time through, and another if that one was not heard of for as long as
/// it rests; one that fails opens it again. Safe from any thread.
class Breaker {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class State : std::uint8_t { closed, half_open, open };

  explicit Breaker(BreakerOptions options) : options_(options) {}
  [[nodiscard]] bool is_on() const noexcept { return options_.share > 0; }

  /// None: the request is let in. Else how many seconds its client should wait.
  [[nodiscard]] std::optional<double> ask(Time now);
  /// A request that came at `came` ended. Of those that were let in before it opened nothing follows any more.
  void ended(bool failed, Time came, Time now);
  [[nodiscard]] bool is_late(double first_token_s) const noexcept { return options_.first_token_s > 0 && first_token_s > options_.first_token_s; }

  struct Counts {
    State state = State::closed;
    std::uint64_t opened = 0, refused = 0;
    double share = 0;  ///< of failures in the window
  };
  [[nodiscard]] Counts counts(Time now);

 private:
  /// The window, in pieces that are forgotten one by one.
  static constexpr std::size_t pieces = 10;
  struct Piece {
    std::int64_t number = -1;
    std::uint64_t ended = 0, failed = 0;
  };
  [[nodiscard]] std::int64_t number_of(Time now) const;
  [[nodiscard]] Piece sum(Time now) const;
  void open(Time now);

  const BreakerOptions options_;
  std::mutex mutex_;
  State state_ = State::closed;
  std::array<Piece, pieces> window_{};
  Time opened_{}, probed_{}, half_opened_{};
  bool probes_ = false;  ///< one is on its way
  int went_well_ = 0;    ///< probes in a row
  std::uint64_t openings_ = 0, refused_ = 0;
};

}  // namespace bantam::server
