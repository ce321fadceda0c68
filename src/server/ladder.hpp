// Smaller models in the place of one, while it is too slow, memory is short or the machine is hot.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace bantam::server {

struct LadderOptions {
  std::vector<std::string> models = {};  ///< names, each smaller than the one before; they follow the first model, whose requests they take; empty: no ladder
  double first_token_s = 0;              ///< a first token that is later than that, on average, is a reason; 0: never
  std::int64_t least_memory = 0;         ///< bytes; less of it left is one; 0: never
  double most_celsius = 0;               ///< more is one, of the sensor that is nearest to its limit; 0: never
  std::chrono::seconds rest{30};         ///< without any reason, and with some way to it, until it goes back a step
  std::filesystem::path sensors = "/sys"; ///< or a folder of the same shape
};

/// Down a step where there is a reason, and no sooner than `settle` after the last step; up one after LadderOptions::rest without any. On the way back
/// reasons count from nine tenths of their bounds, so that it does not step to and fro. Safe from any thread.
class Ladder {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// What is looked at beside first tokens; none where nobody knows.
  struct Look {
    std::optional<std::int64_t> memory = {};
    std::optional<double> celsius = {};
  };
  using Looks = std::function<Look()>;

  /// `looks` is called now and then, by whoever chooses.
  explicit Ladder(LadderOptions options, Looks looks = {});
  [[nodiscard]] bool is_on() const noexcept { return !options_.models.empty(); }
  /// The model that takes a request of the first; empty: the first.
  [[nodiscard]] std::string choose(Time now);
  /// A text began so late.
  void first_token(double seconds);

  struct Counts {
    std::size_t level = 0;  ///< 0: the first model
    std::uint64_t down = 0, up = 0, redirected = 0;
    double first_token_s = 0;
    Look look = {};
  };
  [[nodiscard]] Counts counts() const;

 private:
  [[nodiscard]] bool has_reason(double share) const;

  static constexpr std::chrono::seconds settle{2}, look_every{1};

  const LadderOptions options_;
  const Looks looks_;
  mutable std::mutex mutex_;
  Counts counts_;
  std::uint64_t tokens_ = 0;  ///< first ones, since the last step
  Time looked_{}, stepped_{}, well_since_{};
};

/// available_memory(), and what Sensors say.
[[nodiscard]] Ladder::Look look_at_machine(const LadderOptions& options);

}  // namespace bantam::server
