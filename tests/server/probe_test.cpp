#include "server/probe.hpp"

#include "support.hpp"

namespace bantam::server {

namespace {

Probe::Answer answer_of(float logprob, TextEnd end = TextEnd::length) {
  Probe::Answer answer;
  const TextStats stats;
  const DrawnToken tokens[] = {{.id = 5, .logprob = logprob, .top = {{5, logprob}, {7, -2.5F}}}};
  answer.add({.tokens = tokens, .stats = stats});
  answer.add({.end = end, .error = end == TextEnd::failed ? "broken" : "", .stats = stats});
  return answer;
}

struct ProbeFixture {
  test::TemporaryFolder folder;
  std::string file = (folder / "probe.json").string();
  std::vector<std::string> notes;
  Probe make(const std::string& path) {
    return Probe({.every = std::chrono::seconds(1), .file = path}, [this](std::string_view line) { notes.emplace_back(line); });
  }
};

}  // namespace

TEST_CASE_FIXTURE(ProbeFixture, "the first answer is what is expected from then on, to the bit") {
  Probe probe = make("");
  probe.judge(answer_of(-1.5F), {.model = "m", .kv = "f16"});
  probe.judge(answer_of(-1.5F), {.model = "m", .kv = "f16"});
  CHECK_FALSE(probe.complaint());
  probe.judge(answer_of(std::nextafter(-1.5F, 0.0F)), {.model = "m", .kv = "f16"});
  REQUIRE(probe.complaint());
  CHECK(probe.complaint()->find("expected") != std::string::npos);
  probe.judge(answer_of(std::nextafter(-1.5F, 0.0F)), {.model = "m", .kv = "f16"});
  CHECK(notes.size() == 1);
  probe.judge(answer_of(-1.5F), {.model = "m", .kv = "f16"});
  CHECK_FALSE(probe.complaint());
  CHECK(probe.counts().same == 3);
  CHECK(probe.counts().other == 2);
}

TEST_CASE_FIXTURE(ProbeFixture, "a file keeps what is expected over a start") {
  make(file).judge(answer_of(-1.5F), {.model = "m", .kv = "f16"});
  Probe same = make(file), other = make(file), model = make(file), kv = make(file);
  same.judge(answer_of(-1.5F), {.model = "m", .kv = "f16"});
  CHECK_FALSE(same.complaint());
  other.judge(answer_of(-1.25F), {.model = "m", .kv = "f16"});
  CHECK(other.complaint());
  model.judge(answer_of(-1.5F), {.model = "n", .kv = "f16"});
  CHECK(model.complaint());
  kv.judge(answer_of(-1.5F), {.model = "m", .kv = "q8"});
  CHECK(kv.complaint());
  // Other processors have other last bits.
  Probe isa = make(file), again = make(file);
  isa.judge(answer_of(-1.25F), {.model = "m", .kv = "f16", .isa = "other"});
  CHECK_FALSE(isa.complaint());
  REQUIRE(!notes.empty());
  CHECK(notes.back().find("whose last bits are others than those of other") != std::string::npos);
  again.judge(answer_of(-1.25F), {.model = "m", .kv = "f16", .isa = "other"});
  CHECK(again.counts().same == 1);
}

TEST_CASE_FIXTURE(ProbeFixture, "a file that is none is a complaint, and stays as it is") {
  for (const char* text : {"", "no json", "[]", "{\"model\":\"m\",\"kv\":\"f16\"}", "{\"model\":1,\"kv\":\"f16\",\"hash\":\"x\"}"}) {
    test::write_file(file, text);
    Probe probe = make(file);
    probe.judge(answer_of(-1.5F), {.model = "m", .kv = "f16"});
    CHECK(probe.complaint());
    CHECK(test::read_file(file) == text);
  }
}

TEST_CASE_FIXTURE(ProbeFixture, "an answer that failed is a complaint, one that was not given none") {
  Probe probe = make("");
  probe.skip();
  probe.judge(answer_of(0, TextEnd::cancelled), {.model = "m", .kv = "f16"});
  probe.judge(answer_of(0, TextEnd::late), {.model = "m", .kv = "f16"});
  CHECK_FALSE(probe.complaint());
  CHECK(probe.counts().skipped == 3);
  probe.judge(answer_of(0, TextEnd::failed), {.model = "m", .kv = "f16"});
  CHECK(probe.complaint() == "the probe failed: broken");
}

TEST_CASE("the hash of an answer is SipHash-2-4 without a key, for ever: files have it") { CHECK(answer_of(-1.5F).hash() == "2fbb0231c98b1633"); }

}  // namespace bantam::server
