#include "server/request_log.hpp"

#include <sys/stat.h>

#include <fstream>

#include "server/noon.hpp"
#include "support.hpp"

namespace bantam::server {

namespace {

struct Notes {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::function<void(std::string_view)> taker() {
    return [this](std::string_view line) {
      const std::lock_guard lock(mutex);
      lines.emplace_back(line);
    };
  }
};

/// Writes lines, and waits until they are written or lost.
RequestLog::Counts write(const RequestLogOptions& options, const std::vector<std::string>& lines, Notes& notes) {
  RequestLog log(options, notes.taker());
  for (const std::string& line : lines) log.add(line);
  while (true) {
    const RequestLog::Counts counts = log.counts();
    if (counts.written + counts.lost == lines.size()) return counts;
    std::this_thread::sleep_for(1ms);
  }
}

}  // namespace

TEST_CASE("a log has a line for each request, in a file that its owner alone reads") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "log";
  Notes notes;
  CHECK(write({.path = path.string()}, {"one", "two"}, notes).written == 2);
  CHECK(write({.path = path.string()}, {"three"}, notes).written == 1);
  CHECK(test::read_file(path) == "one\ntwo\nthree\n");
  struct stat about {};
  REQUIRE(::stat(path.c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
  CHECK(notes.lines.empty());
}

TEST_CASE("a file that is full is put aside, and the oldest goes") {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "log").string();
  Notes notes;
  const auto counts = write({.path = path, .most_bytes = 10, .kept = 2}, {"aaaaaa", "bbbbbb", "cccccc", "dddddd"}, notes);
  CHECK(counts.written == 4);
  CHECK(counts.files == 3);
  CHECK(test::read_file(path) == "dddddd\n");
  CHECK(test::read_file(path + ".1") == "cccccc\n");
  CHECK(test::read_file(path + ".2") == "bbbbbb\n");
  CHECK_FALSE(std::filesystem::exists(path + ".3"));
}

TEST_CASE("a file that is old is put aside, and with none to keep it goes") {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "log";
  Notes notes;
  test::write_file(path, "old\n");
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - 48h);
  CHECK(write({.path = path.string(), .kept = 0}, {"new", "newer"}, notes).files == 1);
  CHECK(test::read_file(path) == "new\nnewer\n");
  CHECK_FALSE(std::filesystem::exists(path.string() + ".1"));
}

TEST_CASE("what cannot be written is lost, counted, and told once") {
  Notes notes;
  SUBCASE("a full disk") {
    CHECK(write({.path = "/dev/full"}, {"one", "two", "three"}, notes).lost == 3);
    CHECK(std::filesystem::is_character_file("/dev/full"));
  }
  SUBCASE("no folder") { CHECK(write({.path = "/nowhere/log"}, {"one", "two", "three"}, notes).lost == 3); }
  SUBCASE("a pipe that nobody reads") {
    const test::TemporaryFolder folder;
    const std::string path = (folder.path() / "pipe").string();
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK(write({.path = path}, {"one", "two", "three"}, notes).lost == 3);
  }
  REQUIRE(notes.lines.size() == 1);
  CHECK(notes.lines[0].find("requests are not logged") != std::string::npos);
}

TEST_CASE("a log goes on when it can be written again") {
  const test::TemporaryFolder folder;
  const std::filesystem::path inner = folder.path() / "later", path = inner / "log";
  Notes notes;
  RequestLog log({.path = path.string()}, notes.taker());
  log.add("lost");
  while (log.counts().lost == 0) std::this_thread::sleep_for(1ms);
  std::filesystem::create_directory(inner);
  std::uint64_t tries = 0;
  while (log.counts().written == 0) {
    log.add("kept");
    ++tries;
    std::this_thread::sleep_for(20ms);
  }
  CHECK(test::read_file(path).starts_with("kept\n"));
  CHECK(notes.lines.size() == 1);
}

TEST_CASE("more lines than memory is for are lost rather than waited for") {
  Notes notes;
  RequestLog log({.path = "/dev/null"}, notes.taker());
  log.add(std::string(std::size_t{17} << 20, 'x'));
  CHECK(log.counts().lost == 1);
}

}  // namespace bantam::server
