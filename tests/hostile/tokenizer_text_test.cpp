// Texts made to be slow, huge runs of one thing, and expressions made to explode.
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "bantam/io/gguf.hpp"
#include "bantam/text/tokenizer.hpp"
#include "limits.hpp"
#include "support.hpp"
#include "text/regex.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

#if defined(__SANITIZE_ADDRESS__) || !defined(NDEBUG)
constexpr double patience = 8;  // sanitizers and missing optimization slow all of this down alike
#else
constexpr double patience = 1;
#endif

/// Computed so far: how busy the machine is plays no part.
double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double seconds_to_encode(const Tokenizer& tokenizer, std::string_view unit, std::size_t bytes) {
  std::string text;
  text.reserve(bytes + unit.size());
  while (text.size() < bytes) text += unit;
  const double begin = seconds();
  (void)tokenizer.encode(text, {.parse_special = true});
  return seconds() - begin;
}

Tokenizer splitting_by(const std::string& regex) {
  const TemporaryFolder folder;
  nlohmann::json file = nlohmann::json::parse(R"({"version":"1.0","model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}})");
  file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  write_file(folder / "tokenizer.json", file.dump());
  return Tokenizer::from_file(folder / "tokenizer.json");
}

std::string refusal(const Tokenizer& tokenizer, const std::string& text) {
  return error_of([&] { (void)tokenizer.encode(text); });
}

}  // namespace

TEST_CASE("two megabytes of any one thing take no longer than a text") {
  const std::vector<std::string> units = {"a", "A", "^", " ", "\n", "\t ", "1", "\xcc\x81", "\xcc\x81\xcc\xa3", "\xff", "\xe4\xb8\x80",
                                          "  x", "</s>", std::string(1, '\0'), "\xed\xa0\x80"};
  std::vector<std::filesystem::path> paths;
  for (const char* name : {"gpt-2", "llama-spm", "falcon", "starcoder", "deepseek-llm"}) {
    const auto path = shared_data(message("tokenizers/ggml-vocab-", name, ".gguf"));
    if (path.empty()) {
      MESSAGE("skipped: no shared vocabulary ", name);
      return;
    }
    paths.push_back(path);
  }
  for (const auto& path : paths) {
    const Tokenizer tokenizer = Tokenizer::from_gguf(*GgufFile::open(path));
    for (const std::string& unit : units) {
      CAPTURE(path.string());
      CAPTURE(unit);
      // 0.1 to 0.4 s; quadratic work would take hours.
      CHECK(seconds_to_encode(tokenizer, unit, quick() ? 200'000 : 2'000'000) < 5 * patience);
    }
  }
}

TEST_CASE("a vocabulary of one letter's powers merges a megabyte of it in time") {
  const TemporaryFolder folder;
  nlohmann::json file = nlohmann::json::parse(R"({"version":"1.0","decoder":{"type":"Fuse"},"model":{"type":"BPE","vocab":{},"merges":[]}})");
  std::string power = "a";
  file["model"]["vocab"][power] = 0;
  for (int i = 1; i < 400; ++i) {
    file["model"]["merges"].push_back({power, "a"});
    power += 'a';
    file["model"]["vocab"][power] = i;
  }
  write_file(folder / "tokenizer.json", file.dump());
  const Tokenizer tokenizer = Tokenizer::from_file(folder / "tokenizer.json");
  CHECK(seconds_to_encode(tokenizer, "a", 1'000'000) < 5 * patience);
  CHECK(tokenizer.decode(tokenizer.encode(std::string(12345, 'a'))) == std::string(12345, 'a'));
}

TEST_CASE("an expression that explodes is an error, not a hang") {
  for (const char* regex : {"(a+)+$", "(a|a)*$", "(a|aa)+$", "(?:a?){40}a{40}$", "(.*)*x"}) {
    CAPTURE(regex);
    const Tokenizer tokenizer = splitting_by(regex);
    const double begin = seconds();
    try {
      (void)tokenizer.encode(std::string(5000, 'a') + "b");
    } catch (const Error& error) {
      CHECK(error.code() == Errc::corrupt);
      CHECK(std::string(error.what()).find("the regular expression takes too") != std::string::npos);
    }
    CHECK(seconds() - begin < 10 * patience);
  }
  CHECK(refusal(splitting_by("(a+)+$"), std::string(5000, 'a') + "b").find("takes too") != std::string::npos);
}

TEST_CASE("an expression of quadratic cost is stopped by the clock") {
  const double begin = seconds();
  CHECK(refusal(splitting_by("[a-z]+\\d"), std::string(500'000, 'a')).find("takes too") != std::string::npos);
  CHECK(seconds() - begin < 20 * patience);
}

TEST_CASE("time in which a thread does not compute is not held against it") {
  using namespace std::chrono_literals;
  const Deadline deadline(50ms);
  std::this_thread::sleep_for(60ms);
  CHECK_FALSE(deadline.passed());
  const double begin = seconds();
  while (seconds() - begin < 0.2) {
  }
  CHECK(deadline.passed());
}

TEST_CASE("expressions that match nothing, or emptiness, cut nothing") {
  for (const char* regex : {"z", "z*", "(?=a)", "^", "$", "\\b"}) {
    CAPTURE(regex);
    CHECK(splitting_by(regex).encode("ab ba") == std::vector<TokenId>{0, 1, 1, 0});
  }
}

TEST_CASE("a normalizer that doubles its text again and again is stopped") {
  const TemporaryFolder folder;
  nlohmann::json file = nlohmann::json::parse(R"({"version":"1.0","model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}})");
  const nlohmann::json doubling = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", nlohmann::json(40, doubling)}};
  write_file(folder / "tokenizer.json", file.dump());
  const Tokenizer tokenizer = Tokenizer::from_file(folder / "tokenizer.json");
  CHECK(refusal(tokenizer, "aaaa").find("the tokenizer's normalizer makes more than") != std::string::npos);
}
