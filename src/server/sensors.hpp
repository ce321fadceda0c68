// What a machine says of its heat and power, from sysfs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>

namespace bantam::server {

struct SensorReading {
  double hottest_c = 0;  ///< of the sensor that is nearest to its limit
  double headroom_c = std::numeric_limits<double>::infinity();  ///< from there to the limit; infinite: there is no sensor
  std::string hottest = {};                    ///< its name
  std::optional<double> joules = {};           ///< of the processors' packages since the first reading (RAPL)
  std::uint64_t throttles = 0;                 ///< times that processors slowed themselves down for heat since the first reading
  bool on_battery = false;
  std::optional<double> charge = {};           ///< of the battery, 0 to 1
  std::optional<double> battery_w = {};        ///< that it gives
};

/// Reads them anew each time. What cannot be read is passed over: drivers differ, and some figures are for root alone. For one thread at a time.
class Sensors {
 public:
  /// `root`: "/sys", or a folder of the same shape. `limit_c`: of sensors that name none of their own.
  Sensors(std::filesystem::path root, double limit_c) : root_(std::move(root)), limit_c_(limit_c) {}
  [[nodiscard]] SensorReading read();

 private:
  void read_hwmon(SensorReading& out) const;
  void read_zones(SensorReading& out) const;
  void read_energy(SensorReading& out);
  void read_throttles(SensorReading& out);
  void read_supplies(SensorReading& out) const;

  const std::filesystem::path root_;
  const double limit_c_;
  std::map<std::string, double> energy_uj_;  ///< of each package when it was read last
  double joules_ = 0;
  bool has_energy_ = false;
  std::optional<std::uint64_t> first_throttles_;
};

}  // namespace bantam::server
