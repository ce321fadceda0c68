// Tensor storage: alignment, zeros, sizes that cannot be.
#include "bantam/core/memory.hpp"

#include <unistd.h>

#include <fstream>
#include <limits>
#include <vector>

#include "support.hpp"

using bantam::AlignedBuffer;

TEST_CASE("storage of any size is aligned and zeroed") {
  // Around the border from which on blocks are mapped, too.
  for (const std::size_t bytes : {0ul, 1ul, 63ul, 64ul, 65ul, 4095ul, (1ul << 20) - 1, 1ul << 20, (4ul << 20) - 1, 4ul << 20, (4ul << 20) + 1, 9ul << 20}) {
    CAPTURE(bytes);
    const auto storage = bantam::allocate_storage(bytes);
    REQUIRE(storage != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(storage.get()) % bantam::storage_alignment == 0);
    bool zero = true;
    for (std::size_t i = 0; i < bytes; ++i) zero = zero && storage.get()[i] == std::byte{0};
    CHECK(zero);
    for (std::size_t i = 0; i < bytes; ++i) storage.get()[i] = std::byte{0xff};
  }
}

TEST_CASE("blocks that were given back come back as zeros") {
  for (int i = 0; i < 10; ++i) {
    AlignedBuffer<int> buffer(1000);
    bool zero = true;
    for (int& x : buffer) {
      zero = zero && x == 0;
      x = -1;
    }
    CHECK(zero);
  }
}

TEST_CASE("a block of a megabyte or more leaves the process when it is given back, whatever its neighbors do") {
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    std::int64_t pages = 0;
    file >> pages >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  for (const std::int64_t bytes : {1l << 20, 3l << 20, 5l << 20}) {
    CAPTURE(bytes);
    const auto touched = [&] {
      auto block = bantam::allocate_storage(static_cast<std::size_t>(bytes));
      std::fill_n(block.get(), bytes, std::byte{1});
      return block;
    };
    (void)touched();  // malloc keeps blocks of a size that was given back once
    std::vector<std::shared_ptr<std::byte>> blocks;
    for (int i = 0; i < 64; ++i) blocks.push_back(touched());
    const std::int64_t before = resident();
    for (std::size_t i = 0; i < blocks.size(); i += 2) blocks[i] = nullptr;
    CHECK(before - resident() >= 30 * bytes);
  }
}

TEST_CASE("large blocks begin at a huge page") {
  const auto storage = bantam::allocate_storage(5u << 20);
  CHECK(reinterpret_cast<std::uintptr_t>(storage.get()) % (2u << 20) == 0);
}

TEST_CASE("sizes that no memory holds are refused by name") {
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  CHECK(bantam::test::error_of([&] { (void)bantam::allocate_storage(most); }) ==
        "memory: 18446744073709551615 bytes are more than an address space holds");
  CHECK(bantam::test::error_of([&] { AlignedBuffer<double> buffer(most / 4); }) ==
        "memory: 4611686018427387903 elements of 8 bytes are more than an address space holds");
  // Fits the address space on paper; where the system grants it after all, it costs nothing untouched.
  try {
    (void)bantam::allocate_storage(std::size_t{1} << 46);
  } catch (const bantam::Error& error) {
    CHECK(error.code() == bantam::Errc::out_of_memory);
  }
}

TEST_CASE("a buffer moves, leaving nothing behind, and clones") {
  AlignedBuffer<float> a(3);
  a[0] = 1;
  a[2] = 3;
  AlignedBuffer<float> b = std::move(a);
  CHECK(a.size() == 0);
  CHECK(b.size() == 3);
  a.ensure(2);
  CHECK(a[1] == 0.0f);
  const AlignedBuffer<float> c = b.clone();
  b[0] = 7;
  CHECK(c[0] == 1.0f);
  CHECK(c[2] == 3.0f);
}

TEST_CASE("ensure grows and never shrinks") {
  AlignedBuffer<int> buffer(10);
  const int* before = buffer.data();
  buffer.ensure(5);
  CHECK(buffer.data() == before);
  CHECK(buffer.size() == 10);
  buffer.ensure(11);
  CHECK(buffer.size() == 11);
}
