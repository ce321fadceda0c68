// Stepping down and up.
#include "server/ladder.hpp"

#include <algorithm>

#include "bantam/core/cpu.hpp"
#include "server/sensors.hpp"

namespace bantam::server {

Ladder::Look look_at_machine(const LadderOptions& options) {
  Ladder::Look look;
  if (options.least_memory > 0) {
    if (const std::int64_t free = available_memory(); free > 0) look.memory = free;
  }
  if (options.most_celsius > 0) {
    // Distances from limits are the governor's; here only which is nearest to its own plays a part.
    constexpr double usual_limit_c = 95;
    const SensorReading reading = Sensors(options.sensors, usual_limit_c).read();
    if (!reading.hottest.empty()) look.celsius = reading.hottest_c;
  }
  return look;
}

Ladder::Ladder(LadderOptions options, Looks looks) : options_(std::move(options)), looks_(looks ? std::move(looks) : [this] { return look_at_machine(options_); }) {}

/// Whether a bound, or such a share of the way to it, is passed.
bool Ladder::has_reason(double share) const {
  const LadderOptions& o = options_;
  const Look& look = counts_.look;
  const bool is_slow = o.first_token_s > 0 && tokens_ > 0 && counts_.first_token_s > share * o.first_token_s;
  const bool is_short = o.least_memory > 0 && look.memory && share * static_cast<double>(*look.memory) < static_cast<double>(o.least_memory);
  const bool is_hot = o.most_celsius > 0 && look.celsius && *look.celsius > share * o.most_celsius;
  return is_slow || is_short || is_hot;
}

std::string Ladder::choose(Time now) {
  const std::lock_guard lock(mutex_);
  if (looked_ == Time{} || now - looked_ >= look_every) {
    looked_ = now;
    counts_.look = looks_();
  }
  if (stepped_ == Time{}) stepped_ = now - settle;
  constexpr double way_back = 0.9;
  const auto step_to = [&](std::size_t level) {
    counts_.level = level;
    stepped_ = well_since_ = now;
    // What came before was another model's.
    tokens_ = 0;
    counts_.first_token_s = 0;
  };
  if (has_reason(1)) {
    well_since_ = now;
    if (counts_.level < options_.models.size() && now - stepped_ >= settle) {
      ++counts_.down;
      step_to(counts_.level + 1);
    }
  } else if (has_reason(way_back)) {
    well_since_ = now;
  } else if (counts_.level > 0 && now - well_since_ >= options_.rest) {
    ++counts_.up;
    step_to(counts_.level - 1);
  }
  if (counts_.level == 0) return {};
  ++counts_.redirected;
  return options_.models[counts_.level - 1];
}

void Ladder::first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  // The last dozen or so count.
  constexpr double newest = 0.2;
  const double share = std::max(newest, 1.0 / static_cast<double>(++tokens_));
  counts_.first_token_s += share * (seconds - counts_.first_token_s);
}

Ladder::Counts Ladder::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace bantam::server
