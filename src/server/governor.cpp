// Steps down at once, steps up after a while.
#include "server/governor.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"
#include "bantam/io/file.hpp"
#include "io/json.hpp"

namespace bantam::server {

GovernorPolicy GovernorPolicy::read(const std::string& file) {
  GovernorPolicy policy;
  if (file == "default") return policy;
  const auto mapped = MappedFile::open(file);
  std::string text(mapped->bytes().size(), '\0');
  mapped->read(mapped->bytes(), reinterpret_cast<std::byte*>(text.data()));
  const Json json = Json::parse(text, file);
  const auto refuse = [&](std::string_view name, std::string_view expected) {
    fail(Errc::invalid_argument, printable(file, 4096), ": ", printable(name), ": expected ", expected);
  };
  if (!json.is_object()) refuse("policy", "an object");
  struct Member {
    std::string_view name;
    double GovernorPolicy::*value;
    double least, most;
  };
  constexpr Member members[] = {{"every_s", &GovernorPolicy::every_s, 0.01, 3600},      {"hot_c", &GovernorPolicy::hot_c, 0, 100},
                                {"cool_c", &GovernorPolicy::cool_c, 0, 100},           {"hold_s", &GovernorPolicy::hold_s, 0, 86400},
                                {"step", &GovernorPolicy::step, 0.1, 0.99},            {"least", &GovernorPolicy::least, 0, 1},
                                {"most_w", &GovernorPolicy::most_w, 0, 1e5},           {"battery_share", &GovernorPolicy::battery_share, 0, 1},
                                {"battery_low", &GovernorPolicy::battery_low, 0, 1},   {"limit_c", &GovernorPolicy::limit_c, 1, 200}};
  for (const auto& [name, value] : json.items()) {
    if (name == "root") {
      if (!value.is_string()) refuse(name, "a folder");
      policy.root = value.string();
      continue;
    }
    const auto* member = std::ranges::find(members, std::string_view(name), &Member::name);
    if (member == std::end(members)) refuse(name, "a name of a policy");
    if (!value.is_number() || !(value.get<double>() >= member->least && value.get<double>() <= member->most))
      refuse(name, message("a number from ", member->least, " to ", member->most));
    policy.*member->value = value.get<double>();
  }
  // Between them nothing changes, so that it does not go back and forth.
  if (policy.cool_c <= policy.hot_c) refuse("cool_c", message("more than hot_c, ", policy.hot_c));
  return policy;
}

Governor::Governor(GovernorPolicy policy, std::function<void(std::string_view)> note)
    : policy_(std::move(policy)), note_(std::move(note)), sensors_(policy_.root, policy_.limit_c) {}

Governor::~Governor() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Governor::start() {
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      lock.unlock();
      look(std::chrono::steady_clock::now());
      lock.lock();
      changed_.wait_for(lock, std::chrono::duration<double>(policy_.every_s), [&] { return ends_; });
    }
  });
}

double Governor::share_of(const SensorReading& reading) const {
  double share = std::max(policy_.least, std::pow(policy_.step, level_));
  if (reading.on_battery) share = std::min(share, policy_.battery_share);
  if (reading.on_battery && reading.charge && *reading.charge < policy_.battery_low) share = std::min(share, policy_.least);
  return share;
}

void Governor::measure(const SensorReading& reading, Time now) {
  const double seconds = looked_ ? std::chrono::duration<double>(now - *looked_).count() : 0;
  const std::lock_guard lock(mutex_);
  if (reading.on_battery && reading.battery_w) battery_joules_ += *reading.battery_w * seconds;
  const double before = figures_.joules.value_or(0);
  std::optional<double> joules = reading.joules;
  if (!joules && (reading.battery_w || battery_joules_ > 0)) joules = battery_joules_;
  figures_.watts = joules && seconds > 0 ? std::optional((*joules - before) / seconds) : std::nullopt;
  figures_.joules = joules;
  figures_.reading = reading;
}

void Governor::look(Time now) {
  const SensorReading reading = sensors_.read();
  measure(reading, now);
  const Figures then = figures();
  const bool is_throttled = reading.throttles > std::exchange(throttles_, reading.throttles);
  const bool takes_power = policy_.most_w > 0 && reading.joules && then.watts && *then.watts > policy_.most_w;
  const bool is_hot = reading.headroom_c < policy_.hot_c || is_throttled || takes_power;
  // What took power before would take it again at once.
  const bool spares_power = policy_.most_w == 0 || !then.watts || *then.watts < policy_.step * policy_.most_w;
  const bool is_cool = !is_hot && reading.headroom_c > policy_.cool_c && spares_power;
  if (!is_cool) cool_since_.reset();
  if (is_cool && !cool_since_) cool_since_ = now;
  looked_ = now;
  const int before = level_;
  const bool has_more = std::pow(policy_.step, level_) > policy_.least;
  if (is_hot && has_more) ++level_;
  if (is_cool && level_ > 0 && now - *cool_since_ >= std::chrono::duration<double>(policy_.hold_s)) {
    --level_;
    cool_since_ = now;
  }
  {
    const std::lock_guard lock(mutex_);
    figures_.steps_down += level_ > before ? 1 : 0;
    figures_.steps_up += level_ < before ? 1 : 0;
  }
  const double share = share_of(reading), last = share_.exchange(share);
  // The first step and the last: what is between them is in the metrics.
  if (share != last && (last == 1 || share == 1)) {
    const auto percent = static_cast<int>(std::lround(100 * share));
    note_(message("governor: ", percent, " % of threads and places",
                  reading.hottest.empty() ? "" : message(", ", printable(reading.hottest), " at ", static_cast<int>(reading.hottest_c), " degrees")));
  }
}

Governor::Figures Governor::figures() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

}  // namespace bantam::server
