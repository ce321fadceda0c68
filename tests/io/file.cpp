// Mappings, atomic output, small text files.
#include "bantam/io/file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <set>
#include <thread>

#include "bantam/core/memory.hpp"
#include "io/posix.hpp"
#include "support.hpp"

namespace {

using namespace bantam;
using namespace bantam::test;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

Errc code_of(auto&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.code();
  }
  FAIL_CHECK("no bantam::Error was thrown");
  return Errc{};
}

// Runs f in a child process; its exit status, or minus the signal that killed it.
int in_child(auto&& f) {
  const pid_t child = fork();
  if (child == 0) {
    f();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

TEST_CASE("a mapped file has the bytes of the file, and keeps them when the name is gone") {
  TemporaryFolder folder(Place::drive);
  write_file(folder / "a", "some bytes");
  const auto file = MappedFile::open(folder / "a");
  std::filesystem::remove(folder / "a");
  CHECK(text_of(*file) == "some bytes");
  CHECK(file->path() == folder / "a");
}

TEST_CASE("an empty file maps to nothing") {
  TemporaryFolder folder(Place::drive);
  write_file(folder / "empty", "");
  CHECK(MappedFile::open(folder / "empty")->bytes().empty());
}

TEST_CASE("advice about pages does not change what is read") {
  TemporaryFolder folder(Place::drive);
  const std::string bytes(100'000, 'q');
  write_file(folder / "a", bytes);
  const auto file = MappedFile::open(folder / "a");
  for (const std::size_t begin : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{50'001}}) {
    const auto part = file->bytes().subspan(begin, 40'000);
    file->will_need(part);
    file->drop(part);
    file->drop(part.first(10));
    file->will_need(part.first(0));
    CHECK(text_of(*file) == bytes);
  }
}

TEST_CASE("bytes and whole blocks are read as the mapping shows them, to the last of a file that ends within a block") {
  TemporaryFolder folder(Place::drive);
  std::string bytes;
  for (int i = 0; bytes.size() < 50'001; ++i) bytes += std::to_string(i);
  write_file(folder / "a", bytes);
  const auto file = MappedFile::open(folder / "a");
  struct Part {
    std::size_t begin, size;
  };
  for (const auto& [begin, size] : {Part{0, 1}, Part{0, 4096}, Part{1, 4096}, Part{4095, 2}, Part{40'000, 7'000}, Part{49'000, bytes.size() - 49'000}}) {
    CAPTURE(begin);
    const auto part = file->bytes().subspan(begin, size);
    const std::string expected = bytes.substr(begin, size);
    std::string found(size, '?');
    file->read(part, reinterpret_cast<std::byte*>(found.data()));
    CHECK(found == expected);
    const auto blocks = allocate_storage(16 * MappedFile::block_bytes + MappedFile::block_bytes);
    // Memory at a multiple of the block, as the system asks.
    const auto lead = (MappedFile::block_bytes - reinterpret_cast<std::uintptr_t>(blocks.get()) % MappedFile::block_bytes) % MappedFile::block_bytes;
    file->read_blocks(part, blocks.get() + lead);
    CHECK(std::string(reinterpret_cast<const char*>(blocks.get()) + lead + begin % MappedFile::block_bytes, size) == expected);
  }
}

TEST_CASE("a file cut short after it was opened is an error of reading, not garbage") {
  TemporaryFolder folder(Place::drive);
  write_file(folder / "a", std::string(20'000, 'x'));
  const auto file = MappedFile::open(folder / "a");
  std::filesystem::resize_file(folder / "a", 9'000);
  const auto room = allocate_storage(8 << 20);
  CHECK(code_of([&] { file->read(file->bytes().subspan(8'000, 2'000), room.get()); }) == Errc::io);
  CHECK(code_of([&] { file->read_blocks(file->bytes().subspan(8'000, 2'000), room.get()); }) == Errc::io);
}

TEST_CASE("what is no regular file is not mapped, and the reason is told apart") {
  TemporaryFolder folder(Place::drive);
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(code_of([&] { static_cast<void>(MappedFile::open(folder / "absent")); }) == Errc::not_found);
  CHECK(code_of([&] { static_cast<void>(MappedFile::open(folder.path())); }) == Errc::invalid_argument);
  CHECK(code_of([&] { static_cast<void>(MappedFile::open(folder / "pipe")); }) == Errc::invalid_argument);
  CHECK(code_of([&] { static_cast<void>(MappedFile::open("/dev/null")); }) == Errc::invalid_argument);
  const std::string text = error_of([&] { static_cast<void>(MappedFile::open(folder / "a\nb")); });
  CHECK(text.find("a\\x0ab: cannot open: no such file") != text.npos);
}

TEST_CASE("a file appears under its final name with commit and not before") {
  TemporaryFolder folder(Place::drive);
  {
    AtomicFile file(folder / "out");
    file.write("header..");
    file.write(std::string(5000, 'x'));
    file.pad_to(4096);
    CHECK(file.size() == 8192);
    const std::string late = "HEADER";
    file.write_at(1, std::as_bytes(std::span(late)));
    CHECK_FALSE(std::filesystem::exists(folder / "out"));
    file.commit();
    CHECK(read_file(folder / "out") == "hHEADER." + std::string(5000, 'x') + std::string(8192 - 5008, '\0'));
  }
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("without commit the old file stays and nothing else is left") {
  TemporaryFolder folder(Place::drive);
  write_file(folder / "out", "old");
  {
    AtomicFile file(folder / "out");
    file.write("new");
  }
  CHECK(read_file(folder / "out") == "old");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("commit replaces the old file while a reader keeps what it mapped") {
  TemporaryFolder folder(Place::drive);
  write_file(folder / "out", "old bytes");
  const auto reader = MappedFile::open(folder / "out");
  AtomicFile file(folder / "out");
  file.write("new");
  file.commit();
  CHECK(read_file(folder / "out") == "new");
  CHECK(text_of(*reader) == "old bytes");
}

TEST_CASE("two writers of one name do not meet") {
  TemporaryFolder folder(Place::drive);
  AtomicFile first(folder / "out");
  AtomicFile second(folder / "out");
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  CHECK(read_file(folder / "out") == "first");
}

TEST_CASE("output has the permissions that the umask leaves") {
  TemporaryFolder folder(Place::drive);
  const mode_t before = umask(0027);
  AtomicFile file(folder / "out");
  file.commit();
  umask(before);
  struct stat status {};
  REQUIRE(stat((folder / "out").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
}

TEST_CASE("output is refused where it would replace what is no file, or cannot be created") {
  TemporaryFolder folder(Place::drive);
  CHECK(code_of([] { AtomicFile("/dev/null"); }) == Errc::invalid_argument);
  CHECK(code_of([&] { AtomicFile(folder.path()); }) == Errc::invalid_argument);
  CHECK(code_of([&] { AtomicFile(folder / ""); }) == Errc::invalid_argument);
  CHECK(code_of([&] { AtomicFile(folder / "absent/out"); }) == Errc::not_found);
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("the longest name that a folder takes can be written") {
  TemporaryFolder folder(Place::drive);
  const std::string name(255, 'n');
  AtomicFile file(folder / name);
  file.write("x");
  file.commit();
  CHECK(read_file(folder / name) == "x");
}

TEST_CASE("misuse of an output file is an error, not damage") {
  TemporaryFolder folder(Place::drive);
  AtomicFile file(folder / "out");
  file.write("abc");
  const auto bytes = std::as_bytes(std::span("xy", 2));
  CHECK(code_of([&] { file.write_at(2, bytes); }) == Errc::invalid_argument);
  CHECK(code_of([&] { file.write_at(~std::uint64_t{0}, bytes); }) == Errc::invalid_argument);
  CHECK(code_of([&] { file.pad_to(0); }) == Errc::invalid_argument);
  file.commit();
  CHECK(code_of([&] { file.write("more"); }) == Errc::invalid_argument);
  CHECK(code_of([&] { file.commit(); }) == Errc::invalid_argument);
  CHECK(read_file(folder / "out") == "abc");
}

TEST_CASE("a limit on file sizes gives an error, keeps the old file and raises no signal") {
  TemporaryFolder folder(Place::drive);
  write_file(folder / "out", "old");
  const int status = in_child([&] {
    const rlimit limit{8192, 8192};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    try {
      AtomicFile file(folder / "out");
      file.write(std::string(8192, 'x'));
      file.write("y");
      file.commit();
    } catch (const Error& error) {
      const std::string_view text = error.what();
      const bool named = text.find("out: cannot write: file too large") != text.npos;
      _exit(error.code() == Errc::io && named ? 10 : 3);
    }
  });
  CHECK(status == 10);
  CHECK(read_file(folder / "out") == "old");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a process killed while it writes leaves the old file whole") {
  TemporaryFolder folder(Place::drive);
  write_file(folder / "out", "old");
  const int status = in_child([&] {
    AtomicFile file(folder / "out");
    file.write(std::string(100'000, 'x'));
    raise(SIGKILL);
  });
  CHECK(status == -SIGKILL);
  CHECK(read_file(folder / "out") == "old");
}

namespace {

std::size_t files_in(const TemporaryFolder& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator()));
}

}  // namespace

TEST_CASE("what killed processes left of a file goes when it is written again, what others still write stays") {
  TemporaryFolder folder(Place::drive);
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      AtomicFile file(folder / "a");
      file.write("half of it");
      ::raise(SIGKILL);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    // Each has removed what the one before left.
    CHECK(files_in(folder) == 1);
  }
  write_file(folder / ".a.0123456789.partial", "another's");
  write_file(folder / ".b.01234567.partial", "another file's");
  AtomicFile first(folder / "a");
  AtomicFile second(folder / "a");
  CHECK(files_in(folder) == 4);
  first.write("first");
  first.commit();
  CHECK(read_file(folder / "a") == "first");
  second.write("second");
  second.commit();
  CHECK(read_file(folder / "a") == "second");
  CHECK(files_in(folder) == 3);
}

TEST_CASE("whoever writes the same name at the same time never takes a file away that is about to get it") {
  TemporaryFolder folder(Place::drive);
  std::atomic<bool> done = false;
  // Begins files and leaves them: each looks for what others have abandoned.
  std::thread other([&] {
    while (!done) AtomicFile file(folder / "a");
  });
  for (int i = 0; i < 1000; ++i) {
    AtomicFile file(folder / "a");
    file.write("whole");
    CHECK_NOTHROW(file.commit());
  }
  done = true;
  other.join();
  CHECK(read_file(folder / "a") == "whole");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("the beginning of a file is read, and the kind of a path found out, without waiting for pipes") {
  TemporaryFolder folder(Place::drive);
  write_file(folder / "a", "GGUF and more");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(read_head(folder / "a", 4) == "GGUF");
  CHECK(read_head(folder / "a", 100) == "GGUF and more");
  CHECK(code_of([&] { static_cast<void>(read_head(folder / "pipe", 4)); }) == Errc::invalid_argument);
  CHECK(path_kind(folder / "a") == PathKind::file);
  CHECK(path_kind(folder.path()) == PathKind::folder);
  CHECK(path_kind(folder / "pipe") == PathKind::other);
  CHECK(path_kind(folder / "absent") == PathKind::nothing);
  CHECK(path_kind(folder / "a" / "b") == PathKind::nothing);
  CHECK(error_of([&] { static_cast<void>(path_kind(folder / "loop")); }).find("loop: cannot look at it: too many levels") != std::string::npos);
}

TEST_CASE("names in a folder are all that it holds, until nobody wants more") {
  TemporaryFolder folder(Place::drive);
  const std::string longest(255, 'x');
  std::set<std::string> expected{"a", ".hidden", "folder", "broken link", longest};
  write_file(folder / "a", "");
  write_file(folder / ".hidden", "");
  write_file(folder / longest, "");
  std::filesystem::create_directory(folder / "folder");
  std::filesystem::create_symlink("nothing", folder / "broken link");
  std::multiset<std::string> found;
  detail::for_each_name(folder.path(), [&](std::string_view name) { return found.emplace(name), true; });
  CHECK(std::ranges::equal(found, expected));
  int calls = 0;
  detail::for_each_name(folder.path(), [&](std::string_view) { return ++calls < 2; });
  CHECK(calls == 2);
  for (const char* none : {"a", "absent", "broken link"}) detail::for_each_name(folder / none, [&](std::string_view) { return ++calls > 0; });
  CHECK(calls == 2);
}

TEST_CASE("small text files are read whole, up to a limit") {
  TemporaryFolder folder(Place::drive);
  write_file(folder / "a", "0123456789");
  CHECK(read_text_file(folder / "a") == "0123456789");
  CHECK(read_text_file(folder / "a", 10) == "0123456789");
  CHECK(code_of([&] { static_cast<void>(read_text_file(folder / "a", 9)); }) == Errc::corrupt);
  CHECK(code_of([&] { static_cast<void>(read_text_file(folder / "b")); }) == Errc::not_found);
  CHECK(code_of([&] { static_cast<void>(read_text_file(folder.path())); }) == Errc::invalid_argument);
  write_file(folder / "empty", "");
  CHECK(read_text_file(folder / "empty").empty());
  CHECK(read_text_file(folder / "empty", 0).empty());
}

TEST_CASE("files whose size the system does not know are read to their end") {
  const std::string status = read_text_file("/proc/self/status");
  CHECK(status.find("VmRSS") != status.npos);
  CHECK(code_of([] { static_cast<void>(read_text_file("/proc/self/status", 16)); }) == Errc::corrupt);
}

TEST_CASE("two names of one file are told from two files") {
  TemporaryFolder folder(Place::drive);
  write_file(folder / "a", "x");
  write_file(folder / "b", "x");
  std::filesystem::create_symlink("a", folder / "soft");
  std::filesystem::create_hard_link(folder / "a", folder / "hard");
  CHECK(same_file(folder / "a", folder / "a"));
  CHECK(same_file(folder / "a", folder.path() / "." / "a"));
  CHECK(same_file(folder / "a", folder / "soft"));
  CHECK(same_file(folder / "a", folder / "hard"));
  CHECK_FALSE(same_file(folder / "a", folder / "b"));
  CHECK_FALSE(same_file(folder / "a", folder / "absent"));
  CHECK_FALSE(same_file(folder / "absent", folder / "absent"));
}
