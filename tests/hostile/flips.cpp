// Random damage to good files: whatever it does, opening ends in a checked source or in one line of error.
#include <random>

#include "bantam/io/gguf.hpp"
#include "bantam/io/safetensors.hpp"
#include "hostile/hostile_file.hpp"
#include "hostile/safetensors_builder.hpp"

namespace {

using namespace bantam::test;

// One to four bytes changed: to anything, by one bit, or to a neighbor of the limits of numbers; sometimes cut short.
std::string damaged(const std::string& good, std::size_t header, std::mt19937_64& random) {
  static constexpr unsigned char edges[] = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff, '"', '{', '[', ',', '-', '9'};
  std::string bytes = good;
  const std::size_t changes = 1 + random() % 4;
  for (std::size_t i = 0; i < changes; ++i) {
    // Damage in the data goes unnoticed by design, so most of it is aimed before.
    const std::size_t place = random() % (random() % 16 == 0 ? bytes.size() : header);
    switch (random() % 3) {
      case 0: bytes[place] = static_cast<char>(random()); break;
      case 1: bytes[place] = static_cast<char>(bytes[place] ^ (1 << random() % 8)); break;
      default: bytes[place] = static_cast<char>(edges[random() % std::size(edges)]); break;
    }
  }
  if (random() % 8 == 0) bytes.resize(random() % bytes.size());
  return bytes;
}

// How many of `rounds` damaged files were refused.
template <class Open>
int refused(const std::string& good, std::size_t header, int rounds, HostileFile<Open> file) {
  std::mt19937_64 random(20260101);
  int errors = 0;
  for (int i = 0; i < rounds; ++i) {
    const std::string bytes = damaged(good, header, random);
    try {
      touch_all(*file.open(bytes));
    } catch (const bantam::Error& error) {
      ++errors;
      if (std::string_view(error.what()).find('\n') != std::string_view::npos) FAIL_CHECK(error.what());
    }
  }
  return errors;
}

}  // namespace

TEST_CASE("20000 damaged gguf files are refused or read in bounds") {
  const std::string good = small_gguf().bytes();
  const int errors = refused(good, good.size() - 600, 20'000, HostileFile("flip.gguf", [](const std::filesystem::path& path) {
                               return bantam::GgufFile::open(path);
                             }));
  // Most damage hits a length, a type or a name; half is a safe floor that shows the damage is real.
  CHECK(errors > 10'000);
  CHECK(errors < 20'000);
}

TEST_CASE("20000 damaged safetensors files are refused or read in bounds") {
  const std::string good = small_safetensors();
  const int errors = refused(good, good.size() - 35, 20'000, HostileFile("flip.safetensors", [](const std::filesystem::path& path) {
                               return bantam::SafetensorsFile::open(path);
                             }));
  CHECK(errors > 10'000);
  CHECK(errors < 20'000);
}
