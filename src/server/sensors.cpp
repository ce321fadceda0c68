// Files of one number each.
#include "server/sensors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>
#include <vector>

namespace bantam::server {

namespace {

namespace fs = std::filesystem;

/// The first words of a file, without its end of line; empty where there is none.
std::string line_of(const fs::path& path) {
  std::array<char, 128> text{};
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return {};
  const ssize_t count = ::read(file, text.data(), text.size());
  ::close(file);
  const std::string_view read(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  return std::string(read.substr(0, read.find('\n')));
}

std::optional<double> number_of(const fs::path& path) {
  const std::string line = line_of(path);
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (code != std::errc() || end == line.data()) return std::nullopt;
  return static_cast<double>(value);
}

/// What is in a folder, by name.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code missing;
  // Devices may go while they are looked at.
  for (fs::directory_iterator entry(folder, missing), end; !missing && entry != end; entry.increment(missing)) all.push_back(entry->path());
  std::ranges::sort(all);
  return all;
}

bool is_of_processor(std::string_view name) {
  // Drives, batteries and radios have sensors, too, whose heat is not ours.
  constexpr std::string_view words[] = {"coretemp", "k10temp", "zenpower", "cpu", "soc", "x86_pkg_temp", "acpitz", "package"};
  return std::ranges::any_of(words, [&](std::string_view word) { return name.find(word) != name.npos; });
}

void take(SensorReading& out, const std::string& name, double celsius, double limit) {
  // Sensors that are asleep say zero, or worse.
  if (celsius <= 0 || limit - celsius >= out.headroom_c) return;
  out.headroom_c = limit - celsius;
  out.hottest_c = celsius;
  out.hottest = name;
}

constexpr double milli = 1e-3, micro = 1e-6;

}  // namespace

SensorReading Sensors::read() {
  SensorReading out;
  read_hwmon(out);
  read_zones(out);
  read_energy(out);
  read_throttles(out);
  read_supplies(out);
  return out;
}

void Sensors::read_hwmon(SensorReading& out) const {
  for (const fs::path& chip : entries_of(root_ / "class/hwmon")) {
    const std::string name = line_of(chip / "name");
    if (!is_of_processor(name)) continue;
    for (const fs::path& file : entries_of(chip)) {
      const std::string input = file.filename().string();
      if (!input.starts_with("temp") || !input.ends_with("_input")) continue;
      const std::string sensor = input.substr(0, input.size() - std::string_view("_input").size());
      const std::optional<double> now = number_of(file);
      std::optional<double> limit = number_of(chip / (sensor + "_crit"));
      if (!limit || *limit <= 0) limit = number_of(chip / (sensor + "_max"));
      if (now) take(out, name + ' ' + sensor, milli * *now, limit && *limit > 0 ? milli * *limit : limit_c_);
    }
  }
}

void Sensors::read_zones(SensorReading& out) const {
  for (const fs::path& zone : entries_of(root_ / "class/thermal")) {
    const std::string type = line_of(zone / "type");
    const std::optional<double> now = number_of(zone / "temp");
    if (!now || !is_of_processor(type)) continue;
    double limit = limit_c_;
    bool found = false;
    for (int point = 0; point < 16; ++point) {
      const std::string name = "trip_point_" + std::to_string(point);
      const std::string kind = line_of(zone / (name + "_type"));
      const std::optional<double> at = number_of(zone / (name + "_temp"));
      if (!at || *at <= 0 || (kind != "passive" && kind != "hot" && kind != "critical")) continue;
      // The first of them is where the kernel begins to slow down.
      limit = found ? std::min(limit, milli * *at) : milli * *at;
      found = true;
    }
    take(out, type, milli * *now, limit);
  }
}

void Sensors::read_energy(SensorReading& out) {
  for (const fs::path& zone : entries_of(root_ / "class/powercap")) {
    // Packages: their parts, and the whole machine, would count twice.
    if (!line_of(zone / "name").starts_with("package")) continue;
    const std::optional<double> now = number_of(zone / "energy_uj");
    if (!now) continue;
    const auto [last, is_first] = energy_uj_.try_emplace(zone.filename().string(), *now);
    const double around = number_of(zone / "max_energy_range_uj").value_or(0);
    double more = *now - last->second;
    if (more < 0) more += around;
    if (!is_first && more > 0) joules_ += micro * more;
    last->second = *now;
    has_energy_ = true;
  }
  if (has_energy_) out.joules = joules_;
}

void Sensors::read_throttles(SensorReading& out) {
  std::uint64_t sum = 0;
  for (const fs::path& cpu : entries_of(root_ / "devices/system/cpu")) {
    if (!cpu.filename().string().starts_with("cpu")) continue;
    const double count = number_of(cpu / "thermal_throttle/core_throttle_count").value_or(0);
    sum += count > 0 ? static_cast<std::uint64_t>(count) : 0;
  }
  if (!first_throttles_) first_throttles_ = sum;
  out.throttles = sum - std::min(sum, *first_throttles_);
}

void Sensors::read_supplies(SensorReading& out) const {
  bool has_mains = false, is_online = false;
  for (const fs::path& supply : entries_of(root_ / "class/power_supply")) {
    const std::string type = line_of(supply / "type");
    if (type != "Battery") {
      const std::optional<double> online = number_of(supply / "online");
      has_mains = has_mains || online.has_value();
      is_online = is_online || online.value_or(0) > 0;
      continue;
    }
    // Those of mice and keyboards say so.
    if (line_of(supply / "scope") == "Device" || line_of(supply / "status") != "Discharging") continue;
    out.on_battery = true;
    if (const auto percent = number_of(supply / "capacity")) out.charge = std::min(out.charge.value_or(1), *percent / 100);
    std::optional<double> watts = number_of(supply / "power_now");
    const auto current = number_of(supply / "current_now"), voltage = number_of(supply / "voltage_now");
    if (!watts && current && voltage) watts = *current * *voltage * micro;
    if (watts) out.battery_w = out.battery_w.value_or(0) + micro * std::max(*watts, -*watts);
  }
  // Some discharge for a moment while they are plugged in.
  if (has_mains && is_online) out.on_battery = false;
}

}  // namespace bantam::server
