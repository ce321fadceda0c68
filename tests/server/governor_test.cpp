#include "server/governor.hpp"

#include "server/noon.hpp"
#include "support.hpp"

namespace bantam::server {

namespace {

/// A sysfs of our own.
struct Machine {
  test::TemporaryFolder folder;
  void put(const std::string& file, const std::string& text) const {
    const auto path = folder.path() / file;
    std::filesystem::create_directories(path.parent_path());
    test::write_file(path, text + "\n");
  }
  void heat(int celsius) const {
    put("class/hwmon/hwmon1/name", "coretemp");
    put("class/hwmon/hwmon1/temp1_input", std::to_string(1000 * celsius));
    put("class/hwmon/hwmon1/temp1_crit", "100000");
  }
  [[nodiscard]] GovernorPolicy policy() const {
    GovernorPolicy policy;
    policy.root = folder.path().string();
    return policy;
  }
};

struct Governed : Machine {
  std::vector<double> shares;
  std::vector<std::string> notes;
  std::optional<Governor> governor;
  void begin(const GovernorPolicy& policy) {
    governor.emplace(policy, [this](std::string_view line) { notes.emplace_back(line); });
  }
  /// Keeps the share where it changes.
  void look(Governor::Time now) {
    const double before = governor->share();
    governor->look(now);
    if (governor->share() != before) shares.push_back(governor->share());
  }
};

GovernorPolicy read_policy(const std::string& text) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "policy.json", text);
  return GovernorPolicy::read((folder / "policy.json").string());
}

}  // namespace

TEST_CASE_FIXTURE(Machine, "the sensor that is nearest to its limit counts, of processors alone") {
  heat(80);
  put("class/hwmon/hwmon0/name", "nvme");
  put("class/hwmon/hwmon0/temp1_input", "99000");
  put("class/thermal/thermal_zone0/type", "x86_pkg_temp");
  put("class/thermal/thermal_zone0/temp", "70000");
  put("class/thermal/thermal_zone0/trip_point_0_type", "critical");
  put("class/thermal/thermal_zone0/trip_point_0_temp", "105000");
  put("class/thermal/thermal_zone0/trip_point_1_type", "passive");
  put("class/thermal/thermal_zone0/trip_point_1_temp", "85000");
  put("class/thermal/thermal_zone0/trip_point_2_type", "passive");
  put("class/thermal/thermal_zone0/trip_point_2_temp", "-274000");
  const SensorReading reading = Sensors(folder.path(), 95).read();
  CHECK(reading.headroom_c == doctest::Approx(15));
  CHECK(reading.hottest == "x86_pkg_temp");
  CHECK_FALSE(reading.joules);
  CHECK_FALSE(reading.on_battery);
}

TEST_CASE_FIXTURE(Machine, "files that say nonsense say nothing") {
  put("class/hwmon/hwmon1/name", "coretemp");
  put("class/hwmon/hwmon1/temp1_input", "hot");
  put("class/hwmon/hwmon1/temp2_input", "0");
  put("class/hwmon/hwmon1/temp3_input", "99999999999999999999999");
  put("class/hwmon/hwmon1/temp4_input", "");
  put("class/powercap/intel-rapl:0/name", "package-0");
  put("class/powercap/intel-rapl:0/energy_uj", "-");
  const SensorReading reading = Sensors(folder.path(), 95).read();
  CHECK(reading.hottest.empty());
  CHECK_FALSE(reading.joules);
  CHECK(Sensors("/nowhere", 95).read().hottest.empty());
}

TEST_CASE_FIXTURE(Machine, "energy of packages adds up, around the end of its counter") {
  const auto rapl = [&](int package, std::int64_t uj) { put("class/powercap/intel-rapl:" + std::to_string(package) + "/energy_uj", std::to_string(uj)); };
  for (const int package : {0, 1}) {
    put("class/powercap/intel-rapl:" + std::to_string(package) + "/name", "package-" + std::to_string(package));
    put("class/powercap/intel-rapl:" + std::to_string(package) + "/max_energy_range_uj", "1000000000");
  }
  put("class/powercap/intel-rapl:2/name", "psys");
  put("class/powercap/intel-rapl:2/energy_uj", "5");
  rapl(0, 900000000);
  rapl(1, 0);
  Sensors sensors(folder.path(), 95);
  CHECK(sensors.read().joules == doctest::Approx(0));
  rapl(0, 100000000);
  rapl(1, 50000000);
  put("class/powercap/intel-rapl:2/energy_uj", "500000000");
  CHECK(*sensors.read().joules == doctest::Approx(250));
}

TEST_CASE_FIXTURE(Machine, "a battery counts while it gives the power") {
  put("class/power_supply/BAT0/type", "Battery");
  put("class/power_supply/BAT0/status", "Discharging");
  put("class/power_supply/BAT0/capacity", "40");
  put("class/power_supply/BAT0/current_now", "2000000");
  put("class/power_supply/BAT0/voltage_now", "12000000");
  Sensors sensors(folder.path(), 95);
  const SensorReading reading = sensors.read();
  CHECK(reading.on_battery);
  CHECK(*reading.charge == doctest::Approx(0.4));
  CHECK(*reading.battery_w == doctest::Approx(24));
  put("class/power_supply/AC/type", "Mains");
  put("class/power_supply/AC/online", "1");
  CHECK_FALSE(sensors.read().on_battery);
}

TEST_CASE_FIXTURE(Governed, "heat takes a step at each look, down to the least, and not back before all is cool for a while") {
  GovernorPolicy p = policy();
  p.hold_s = 10;
  begin(p);
  heat(80);
  look(noon);
  CHECK(shares.empty());
  heat(93);
  for (int i = 1; i <= 8; ++i) look(noon + i * 2s);
  REQUIRE(shares.size() == 5);
  CHECK(shares[0] == doctest::Approx(0.75));
  CHECK(shares[1] == doctest::Approx(0.5625));
  CHECK(shares.back() == doctest::Approx(0.25));
  // Neither hot nor cool: nothing changes.
  heat(90);
  for (int i = 0; i < 100; ++i) look(noon + 20s + i * 2s);
  CHECK(shares.size() == 5);
  heat(80);
  look(noon + 300s);
  look(noon + 309s);
  CHECK(shares.size() == 5);
  look(noon + 310s);
  CHECK(shares.size() == 6);
  look(noon + 312s);
  CHECK(shares.size() == 6);
  for (int i = 0; i < 20; ++i) look(noon + 320s + i * 10s);
  CHECK(shares.back() == 1);
  const Governor::Figures f = governor->figures();
  CHECK(governor->share() == 1);
  CHECK(f.steps_down == f.steps_up);
  // The first step and the last are told.
  CHECK(notes.size() == 2);
}

TEST_CASE_FIXTURE(Governed, "processors that slow themselves down are hot, whatever their sensors say") {
  heat(40);
  put("devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "7");
  begin(policy());
  look(noon);
  CHECK(shares.empty());
  put("devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "9");
  look(noon + 2s);
  CHECK(shares.size() == 1);
  CHECK(governor->figures().reading.throttles == 2);
  look(noon + 4s);
  CHECK(shares.size() == 1);
}

TEST_CASE_FIXTURE(Governed, "power beyond its bound takes steps, and energy is measured") {
  GovernorPolicy p = policy();
  p.most_w = 50;
  p.hold_s = 0;
  begin(p);
  put("class/powercap/intel-rapl:0/name", "package-0");
  std::int64_t uj = 1000000;
  const auto pass = [&](int second, std::int64_t watts) {
    uj += watts * 1000000;
    put("class/powercap/intel-rapl:0/energy_uj", std::to_string(uj));
    look(noon + std::chrono::seconds(second));
  };
  pass(0, 0);
  pass(1, 60);
  CHECK(shares.size() == 1);
  CHECK(*governor->figures().watts == doctest::Approx(60));
  CHECK(*governor->figures().joules == doctest::Approx(60));
  pass(2, 45);  // less than the bound, but a step more would be beyond it
  CHECK(shares.size() == 1);
  pass(3, 30);
  CHECK(shares.size() == 2);
  CHECK(shares.back() == 1);
}

TEST_CASE_FIXTURE(Governed, "a battery takes its share, and when it is low all but the least") {
  GovernorPolicy p = policy();
  p.battery_share = 0.5;
  begin(p);
  put("class/power_supply/BAT0/type", "Battery");
  put("class/power_supply/BAT0/status", "Discharging");
  put("class/power_supply/BAT0/capacity", "80");
  put("class/power_supply/BAT0/power_now", "15000000");
  look(noon);
  put("class/power_supply/BAT0/capacity", "19");
  look(noon + 2s);
  put("class/power_supply/BAT0/status", "Charging");
  look(noon + 4s);
  CHECK(shares == std::vector<double>{0.5, 0.25, 1});
  CHECK(*governor->figures().joules == doctest::Approx(30));
}

TEST_CASE_FIXTURE(Governed, "a machine without sensors is left alone") {
  begin(policy());
  for (int i = 0; i < 5; ++i) look(noon + i * 2s);
  CHECK(shares.empty());
  CHECK_FALSE(governor->figures().joules);
}

TEST_CASE("a policy is an object of its numbers, and nothing else") {
  CHECK(GovernorPolicy::read("default").hot_c == 8);
  const GovernorPolicy policy = read_policy(R"({"hot_c": 5, "most_w": 40, "root": "/x"})");
  CHECK(policy.hot_c == 5);
  CHECK(policy.most_w == 40);
  CHECK(policy.root == "/x");
  for (const char* text : {"", "[]", "{\"hot\": 1}", "{\"hot_c\": \"1\"}", "{\"hot_c\": -1}", "{\"step\": 1}", "{\"hot_c\": 20, \"cool_c\": 20}", "{\"root\": 1}"}) {
    CAPTURE(text);
    CHECK_THROWS_AS((void)read_policy(text), Error);
  }
}

}  // namespace bantam::server
