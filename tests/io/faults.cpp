// Output under a system that fails: every call in turn, short writes, interruptions.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "bantam/io/file.hpp"
#include "bantam/io/safetensors.hpp"
#include "support.hpp"

namespace {

// What the replaced calls below do while a test has armed them.
struct Faults {
  int calls = 0;              ///< of all kinds, since armed
  int fail_at = 0;            ///< the call that fails; 0 for none
  bool persistent = false;    ///< and all after it
  int error = EIO;
  std::size_t longest = ~std::size_t{0};  ///< bytes that one write moves
  bool interrupt = false;     ///< every second call is interrupted

  bool fails() {
    ++calls;
    if (interrupt && calls % 2 == 1) {
      errno = EINTR;
      return true;
    }
    if (fail_at == 0 || calls < fail_at || (calls > fail_at && !persistent)) return false;
    errno = error;
    return true;
  }
};

Faults* armed = nullptr;

struct Armed {
  explicit Armed(Faults& faults) { armed = &faults; }
  ~Armed() { armed = nullptr; }
};

template <class F>
F* system_call(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// These take the place of the system's in this test program.
extern "C" ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  if (armed != nullptr && armed->fails()) return -1;
  if (armed != nullptr) count = std::min(count, armed->longest);
  return system_call<ssize_t(int, const void*, size_t, off_t)>("pwrite")(descriptor, bytes, count, offset);
}

extern "C" int fsync(int descriptor) {
  if (armed != nullptr && armed->fails()) return -1;
  return system_call<int(int)>("fsync")(descriptor);
}

extern "C" int ftruncate(int descriptor, off_t size) noexcept {
  if (armed != nullptr && armed->fails()) return -1;
  return system_call<int(int, off_t)>("ftruncate")(descriptor, size);
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (armed != nullptr && !armed->interrupt && armed->fails()) return -1;
  return system_call<int(const char*, const char*)>("rename")(from, to);
}

namespace {

using namespace bantam;
using namespace bantam::test;

const std::vector<SafetensorsWriter::Announced> announced = {{"a", "U8", {5}}, {"b", "U8", {3}}};

void write_tensors(const std::filesystem::path& path) {
  SafetensorsWriter writer(path, announced, {{"made", "by a test"}}, {.alignment = 64, .metadata_room = 100});
  const std::string data = "0123456789";
  const auto bytes = std::as_bytes(std::span(data));
  writer.write(bytes.first(5));
  writer.write(bytes.subspan(5, 1));
  writer.write(bytes.subspan(6, 2));
  writer.set_metadata("hash", "1234");
  writer.commit();
}

}  // namespace

TEST_CASE("whichever call fails, the file is the old one or the complete new one, and nothing else is left") {
  TemporaryFolder folder(Place::drive);
  const std::filesystem::path path = folder / "out.safetensors";
  write_tensors(path);
  const std::string complete = read_file(path);
  for (const int error : {EIO, ENOSPC, EDQUOT, EROFS}) {
    for (const bool persistent : {false, true}) {
      int failed = 0;
      for (int n = 1;; ++n) {
        CAPTURE(n);
        CAPTURE(error);
        REQUIRE(n < 100);
        write_file(path, "old");
        Faults faults{.fail_at = n, .persistent = persistent, .error = error};
        bool thrown = false;
        std::string text;
        {
          const Armed arm(faults);
          try {
            write_tensors(path);
          } catch (const Error& e) {
            thrown = true;
            text = e.what();
            CHECK(e.code() == Errc::io);
          }
        }
        const std::string found = read_file(path);
        CHECK((found == "old" || found == complete));
        CHECK(entries(folder.path()) == 1);
        if (!thrown) {
          CHECK(found == complete);
          CHECK(faults.calls < n);  // a failure that was swallowed would end the loop early
          break;
        }
        CHECK(text.find("out.safetensors: cannot ") != text.npos);
        ++failed;
      }
      // The length, three pieces, the header, two syncs and a rename.
      CHECK(failed == 8);
    }
  }
}

TEST_CASE("short writes and interruptions change nothing") {
  TemporaryFolder folder(Place::drive);
  write_tensors(folder / "plain");
  for (const std::size_t longest : {std::size_t{1}, std::size_t{3}, std::size_t{1000}}) {
    for (const bool interrupt : {false, true}) {
      Faults faults{.longest = longest, .interrupt = interrupt};
      {
        const Armed arm(faults);
        write_tensors(folder / "faulty");
      }
      CHECK(faults.calls >= 8);
      CHECK(read_file(folder / "faulty") == read_file(folder / "plain"));
    }
  }
}

TEST_CASE("a write of nothing without a reason does not hang") {
  TemporaryFolder folder(Place::drive);
  Faults faults{.longest = 0};
  const Armed arm(faults);
  const std::string text = error_of([&] { write_tensors(folder / "out"); });
  CHECK(text.find("cannot write") != text.npos);
}
