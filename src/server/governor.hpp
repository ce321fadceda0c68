// Gives way to heat, and spares power, before the kernel does it the hard way: fewer threads and fewer texts at once. Texts keep their bits.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "server/sensors.hpp"

namespace bantam::server {

struct GovernorPolicy {
  double every_s = 2;        ///< between looks
  double hot_c = 8;          ///< degrees before a sensor's limit at which a step is given up, at each look
  double cool_c = 15;        ///< at which one is taken back
  double hold_s = 20;        ///< after all was cool for so long
  double step = 0.75;        ///< what is left of threads and places after a step
  double least = 0.25;       ///< that is left after all of them
  double most_w = 0;         ///< of the processors' packages, in the same way as heat; 0: no bound
  double battery_share = 1;  ///< at most so much on battery
  double battery_low = 0.2;  ///< of its charge, below which `least` is what is left
  double limit_c = 95;       ///< of sensors that name none
  std::string root = "/sys";

  /// An object of these names and numbers, or "default". Throws bantam::Error for other members and for what makes no sense.
  [[nodiscard]] static GovernorPolicy read(const std::string& file);
};

/// Figures are for any thread.
class Governor {
 public:
  using Time = std::chrono::steady_clock::time_point;
  Governor(GovernorPolicy policy, std::function<void(std::string_view)> note);
  ~Governor();
  Governor(const Governor&) = delete;
  Governor& operator=(const Governor&) = delete;

  /// Looks every now and then, on a thread of its own, until it ends.
  void start();
  /// Looks, and decides. On one thread.
  void look(Time now);

  /// Of threads and places, how much may be used.
  [[nodiscard]] double share() const noexcept { return share_; }
  struct Figures {
    SensorReading reading = {};
    std::optional<double> joules = {};  ///< since the beginning: of the packages, else of the battery
    std::optional<double> watts = {};
    std::uint64_t steps_down = 0, steps_up = 0;
  };
  [[nodiscard]] Figures figures() const;

 private:
  [[nodiscard]] double share_of(const SensorReading& reading) const;
  void measure(const SensorReading& reading, Time now);

  const GovernorPolicy policy_;
  const std::function<void(std::string_view)> note_;
  Sensors sensors_;
  // The looking thread's.
  int level_ = 0;
  std::optional<Time> looked_, cool_since_;
  std::uint64_t throttles_ = 0;
  double battery_joules_ = 0;

  std::atomic<double> share_{1};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  Figures figures_;
  std::thread thread_;
};

}  // namespace bantam::server
