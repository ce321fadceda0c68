#include "server/trace.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "server/noon.hpp"
#include "support.hpp"

namespace bantam::server {

namespace {

RequestRecord record_of(std::uint64_t number, Trace::Time came) {
  RequestRecord r;
  r.number = number;
  r.method = "POST";
  r.path = "/v1/completions";
  r.model = "m";
  r.status = 200;
  r.prompt_tokens = 7;
  r.generated_tokens = 3;
  r.came = came;
  r.first_token = came + 100ms;
  r.ended = came + 200ms;
  r.waited_ms = 30;
  r.prompt_ms = 50;
  r.generate_ms = 90;
  return r;
}

/// What a viewer asks for: JSON, phases that begin and end, one inside the other by its times.
std::map<std::string, double> check_events(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  std::map<std::pair<std::int64_t, std::string>, double> open;
  std::map<std::string, double> durations;
  for (const auto& e : json.at("traceEvents")) {
    const std::string kind = e.at("ph"), name = e.at("name");
    CHECK(e.at("pid") == 1);
    if (kind == "M") continue;
    CHECK(e.at("ts").is_number());
    if (kind == "X") {
      CHECK(e.at("dur").get<double>() >= 0);
      durations[name] = e.at("dur");
      continue;
    }
    const std::pair<std::int64_t, std::string> key{e.at("id").get<std::int64_t>(), name};
    if (kind == "b") {
      CHECK(open.emplace(key, e.at("ts")).second);
    } else {
      REQUIRE(kind == "e");
      REQUIRE(open.contains(key));
      durations[name] = e.at("ts").get<double>() - open.at(key);
      CHECK(durations[name] >= 0);
      open.erase(key);
    }
  }
  CHECK(open.empty());
  return durations;
}

}  // namespace

TEST_CASE("a trace has each request with its phases, and the steps") {
  Trace trace(true);
  trace.add(record_of(1, noon));
  trace.add(record_of(2, noon + 50ms));
  trace.add_pass({.begin = noon + 10ms, .end = noon + 20ms, .texts = 1, .prompt_tokens = 5});
  trace.add_pass({.begin = noon + 20ms, .end = noon + 25ms, .texts = 2, .weights = {.streamed_bytes = 9000, .expert_hits = 7, .expert_misses = 2, .waited_seconds = 0.002}});
  const auto durations = check_events(trace.json({}));
  CHECK(durations.at("request") == doctest::Approx(200e3));
  CHECK(durations.at("parse") == doctest::Approx(20e3));
  CHECK(durations.at("queue") == doctest::Approx(30e3));
  CHECK(durations.at("prompt") == doctest::Approx(50e3));
  CHECK(durations.at("generate") == doctest::Approx(90e3));
  CHECK(durations.at("answer") == doctest::Approx(10e3));
  CHECK(durations.at("prompt piece") == doctest::Approx(10e3));
  CHECK(durations.at("decode") == doctest::Approx(5e3));
  const auto json = nlohmann::json::parse(trace.json({}));
  for (const auto& e : json.at("traceEvents")) {
    if (e.at("name") == "decode") CHECK(e.at("args") == nlohmann::json{{"prompt_tokens", 0}, {"texts", 2}, {"weights_read_bytes", 9000}, {"weights_waited_ms", 2.0}, {"expert_hits", 7}, {"expert_misses", 2}});
    if (e.at("name") == "prompt piece") CHECK(e.at("args") == nlohmann::json{{"prompt_tokens", 5}, {"texts", 1}});
  }
}

TEST_CASE("times that do not fit together still make phases one after the other") {
  Trace trace(true);
  RequestRecord r = record_of(1, noon);
  r.waited_ms = r.prompt_ms = r.generate_ms = 1e6;
  trace.add(r);
  const auto durations = check_events(trace.json({}));
  CHECK(durations.at("parse") + durations.at("queue") + durations.at("prompt") + durations.at("generate") + durations.at("answer") ==
        doctest::Approx(200e3));
}

TEST_CASE("a trace keeps nothing while nobody watches, and the last events of those who do") {
  Trace trace(false);
  trace.add(record_of(1, noon));
  CHECK(trace.counts().kept == 0);
  trace.watch();
  for (std::size_t i = 0; i < Trace::most_events + 10; ++i) trace.add_pass({.begin = noon + i * 1us, .end = noon + i * 1us, .texts = 1});
  CHECK(trace.counts().kept == Trace::most_events);
  CHECK(trace.counts().dropped == 10);
  check_events(trace.json(noon + std::chrono::microseconds(Trace::most_events)));
  trace.unwatch();
  CHECK(trace.counts().kept == 0);
}

TEST_CASE("names from clients are text in a trace") {
  Trace trace(true);
  RequestRecord r = record_of(1, noon);
  r.path = "/v1/\"},{\xff\n";
  trace.add(r);
  check_events(trace.json({}));
}

}  // namespace bantam::server
