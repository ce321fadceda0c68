#include "server/ladder.hpp"

#include <fstream>

#include "server/noon.hpp"
#include "support.hpp"

namespace bantam::server {

namespace {

struct LadderFixture {
  Ladder::Look look;
  Ladder make(LadderOptions options) {
    options.models = {"small", "tiny"};
    options.rest = 10s;
    return Ladder(options, [this] { return look; });
  }
};

}  // namespace

TEST_CASE_FIXTURE(LadderFixture, "each reason steps down, and back when it is gone for as long as the ladder rests") {
  struct Reason {
    const char* name;
    LadderOptions options;
    Ladder::Look bad, nearly, good;
  };
  const Reason reasons[] = {
      {"memory", {.least_memory = 1000}, {.memory = 900}, {.memory = 1050}, {.memory = 2000}},
      {"temperature", {.most_celsius = 80}, {.celsius = 81}, {.celsius = 75}, {.celsius = 60}},
  };
  for (const Reason& reason : reasons) {
    CAPTURE(reason.name);
    Ladder ladder = make(reason.options);
    look = reason.good;
    CHECK(ladder.choose(noon) == "");
    look = reason.bad;
    CHECK(ladder.choose(noon + 500ms) == "");  // looked at a while ago
    CHECK(ladder.choose(noon + 2s) == "small");
    CHECK(ladder.choose(noon + 3s) == "small");  // it takes effect first
    CHECK(ladder.choose(noon + 4s) == "tiny");
    CHECK(ladder.choose(noon + 8s) == "tiny");
    look = reason.nearly;
    CHECK(ladder.choose(noon + 30s) == "tiny");  // neither down nor up
    CHECK(ladder.choose(noon + 60s) == "tiny");
    look = reason.good;
    CHECK(ladder.choose(noon + 61s) == "tiny");
    CHECK(ladder.choose(noon + 69s) == "tiny");
    CHECK(ladder.choose(noon + 71s) == "small");
    CHECK(ladder.choose(noon + 79s) == "small");
    look = reason.nearly;
    CHECK(ladder.choose(noon + 80s) == "small");  // the rest begins anew
    look = reason.good;
    CHECK(ladder.choose(noon + 89s) == "small");
    CHECK(ladder.choose(noon + 91s) == "");
    CHECK(ladder.counts().down == 2);
    CHECK(ladder.counts().up == 2);
    CHECK(ladder.counts().level == 0);
  }
}

TEST_CASE_FIXTURE(LadderFixture, "late first tokens are a reason, and those of the model before none") {
  Ladder ladder = make({.first_token_s = 1});
  for (int i = 0; i < 20; ++i) ladder.first_token(0.5);
  CHECK(ladder.choose(noon) == "");
  ladder.first_token(2);
  CHECK(ladder.choose(noon + 1s) == "");  // one alone is an accident
  for (int i = 0; i < 20; ++i) ladder.first_token(2);
  CHECK(ladder.counts().first_token_s == doctest::Approx(2).epsilon(0.02));
  CHECK(ladder.choose(noon + 2s) == "small");
  CHECK(ladder.choose(noon + 9s) == "small");
  ladder.first_token(0.1);
  CHECK(ladder.choose(noon + 13s) == "");
}

TEST_CASE_FIXTURE(LadderFixture, "without sensors and bounds there is no reason") {
  Ladder ladder = make({.least_memory = 1000, .most_celsius = 50});
  CHECK(ladder.choose(noon) == "");
  CHECK(ladder.choose(noon + 10s) == "");
  CHECK_FALSE(Ladder(LadderOptions{}).is_on());
}

TEST_CASE("the machine is read from a folder of sensors") {
  const test::TemporaryFolder folder;
  const auto put = [&](const char* name, const std::string& text) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
  };
  const LadderOptions options{.least_memory = 1, .most_celsius = 80, .sensors = folder / ""};
  CHECK_FALSE(look_at_machine(options).celsius);
  put("class/thermal/thermal_zone0/type", "acpitz\n");
  put("class/thermal/thermal_zone0/temp", "41000\n");
  put("class/thermal/thermal_zone1/type", "x86_pkg_temp\n");
  put("class/thermal/thermal_zone1/temp", "73500\n");
  CHECK(look_at_machine(options).celsius == 73.5);
  CHECK(look_at_machine(options).memory.value_or(1) > 0);
  CHECK_FALSE(look_at_machine({.sensors = folder / ""}).celsius);  // nobody asks
}

}  // namespace bantam::server
