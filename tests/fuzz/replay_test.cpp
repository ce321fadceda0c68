// The fuzzers' kept inputs in an ordinary build, so that what was mended stays mended where there is no clang.
#include <exception>

#include "fuzz/fuzz.hpp"
#include "support.hpp"

namespace bantam::fuzz {

TEST_CASE("every kept input of every fuzzer keeps the promises") {
  for (const Target* target : targets()) {
    const std::filesystem::path folder = std::filesystem::path(BANTAM_SOURCE_DIR "/tests/fuzz/corpus") / target->name;
    CAPTURE(folder.string());
    REQUIRE(std::filesystem::is_directory(folder));
    std::size_t inputs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      CAPTURE(entry.path().filename().string());
      const std::string input = test::read_file(entry.path());
      CHECK_NOTHROW(target->run({reinterpret_cast<const std::uint8_t*>(input.data()), input.size()}));
      ++inputs;
    }
    CHECK(inputs > 0);
  }
}

TEST_CASE("choices run out quietly and stay within what is asked for") {
  Choices choices(Bytes{});
  CHECK(choices.below(7) == 0);
  CHECK_FALSE(choices.once_in(2));
  CHECK(choices.text(10).empty());
  const std::uint8_t bytes[] = {255, 255, 255, 255, 3, 'a', 'b', 'c', 'd'};
  Choices some(bytes);
  CHECK(some.below(10) == 5);
  CHECK(some.below(1000) == 65535 % 1000);
  CHECK(some.between(-1, 1) == -1);
  CHECK(some.text(7) == "abc");
  CHECK(some.rest() == "d");
  CHECK(some.done());
}

TEST_CASE("a promise that does not hold is told apart from an error") {
  CHECK(survives([] {}));
  CHECK_FALSE(survives([] { fail(Errc::corrupt, "one line"); }));
  CHECK_THROWS_AS(survives([] { fail(Errc::corrupt, "two\nlines"); }), Broken);
  CHECK_THROWS_AS(survives([] { fail(Errc::out_of_memory, "for nothing"); }), Broken);
  CHECK_THROWS_AS(survives([] { require(false, "never"); }), Broken);
}

TEST_CASE("changed json is json, and not what it was") {
  const std::string text = R"({"a":[1,2,{"b":"c"}],"d":null})";
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) changed += mutate_json(text, seed) != text;
  CHECK(changed > 150);
  CHECK(mutate_json("no json", 1) == "no json");
}

}  // namespace bantam::fuzz
