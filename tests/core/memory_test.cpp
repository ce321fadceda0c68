// Tensor storage: alignment, zeros, sizes that cannot be.
#include "bantam/core/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <span>
#include <vector>

#include "support.hpp"

using bantam::AlignedBuffer;
using bantam::StorageArena;

namespace {

/// Bytes of the process that lie in memory.
std::int64_t resident() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  file >> pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

}  // namespace

TEST_CASE("storage of any size is aligned and zeroed") {
  // Around the border from which on blocks are mapped, too.
  for (const std::size_t bytes : {0ul, 1ul, 63ul, 64ul, 65ul, 4095ul, (1ul << 20) - 1, 1ul << 20, (2ul << 20) - 1, 2ul << 20, (2ul << 20) + 1, 9ul << 20}) {
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

TEST_CASE("large blocks begin at a huge page and are not rounded up to one") {
  constexpr std::size_t bytes = (3u << 20) + 100, count = 64;
  std::vector<std::shared_ptr<std::byte>> blocks;
  const std::int64_t before = resident();
  for (std::size_t i = 0; i < count; ++i) {
    blocks.push_back(bantam::allocate_storage(bytes));
    CHECK(reinterpret_cast<std::uintptr_t>(blocks.back().get()) % (2u << 20) == 0);
    std::fill_n(blocks.back().get(), bytes, std::byte{1});
  }
  CHECK(resident() - before <= static_cast<std::int64_t>(count * (bytes + 8192)));
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

TEST_CASE("a vector that grows large keeps what it has, and begins at a huge page from where it takes one") {
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  for (const std::size_t bytes : {huge_page / 2 - 8, huge_page / 2, huge_page, huge_page + 8, 3 * huge_page / 2, 2 * huge_page - 8, 5 * huge_page + 64}) {
    INFO("bytes: ", bytes);
    bantam::LargeVector<std::uint64_t> values;
    values.reserve(bytes / sizeof(std::uint64_t));
    for (std::size_t i = 0; i < values.capacity(); ++i) values.push_back(i);
    CHECK(values.size() * sizeof(std::uint64_t) == bytes);
    if (bytes >= huge_page / 2) CHECK(reinterpret_cast<std::uintptr_t>(values.data()) % huge_page == 0);
    values.push_back(values.size());
    const auto copy = values;
    values = {};
    bool same = true;
    for (std::size_t i = 0; i < copy.size(); ++i) same = same && copy[i] == i;
    CHECK(same);
  }
}

TEST_CASE("blocks of an arena lie side by side from a huge page on, aligned and zeroed") {
  const std::size_t sizes[] = {1, 4096, 3u << 20, 100, 0, 70u << 20, 5000};
  const auto room = [](std::size_t bytes) { return bantam::round_up(std::max<std::size_t>(bytes, 1), StorageArena::block_alignment); };
  std::size_t all = 0;
  for (const std::size_t bytes : sizes) all += room(bytes);
  StorageArena arena(all);
  std::vector<std::shared_ptr<std::byte>> blocks;
  for (const std::size_t bytes : sizes) {
    CAPTURE(bytes);
    blocks.push_back(arena.allocate(bytes));
    const std::span<std::byte> block(blocks.back().get(), bytes);
    CHECK(std::ranges::all_of(block, [](std::byte b) { return b == std::byte{0}; }));
    std::ranges::fill(block, static_cast<std::byte>(blocks.size()));
  }
  CHECK(reinterpret_cast<std::uintptr_t>(blocks[0].get()) % (2u << 20) == 0);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    CAPTURE(i);
    const std::span<const std::byte> block(blocks[i].get(), sizes[i]);
    CHECK(std::ranges::all_of(block, [&](std::byte b) { return b == static_cast<std::byte>(i + 1); }));
    if (i > 0) CHECK(blocks[i].get() == blocks[i - 1].get() + room(sizes[i - 1]));
  }
  // What nobody expected has memory of its own.
  const auto more = arena.allocate(100);
  CHECK(std::abs(more.get() - blocks[0].get()) > static_cast<std::ptrdiff_t>(all));
}

TEST_CASE("pieces of an arena leave the process with the last block in them, with or without the arena") {
  constexpr std::size_t size = 3u << 20, count = 128;
  constexpr std::int64_t piece = StorageArena::piece_bytes;
  std::vector<std::shared_ptr<std::byte>> blocks;
  const std::int64_t before = resident();
  {
    StorageArena arena(2 * count * size);
    for (std::size_t i = 0; i < count; ++i) std::fill_n(blocks.emplace_back(arena.allocate(size)).get(), size, std::byte{7});
  }
  const std::int64_t full = resident();
  CHECK(full - before >= std::int64_t{count * size});
  // One block keeps the pieces that it lies in: two at most.
  const auto kept = blocks[count / 2];
  blocks.clear();
  CHECK(full - resident() >= std::int64_t{count * size} - 2 * piece);
  CHECK(std::ranges::all_of(std::span(kept.get(), size), [](std::byte b) { return b == std::byte{7}; }));
}

TEST_CASE("an arena takes memory from the allocator that was set, block by block, and from malloc where it is small") {
  static std::vector<std::size_t> asked;
  asked.clear();
  bantam::set_storage_allocator({[](std::size_t bytes, std::size_t alignment, void*) -> void* { return asked.push_back(bytes), std::aligned_alloc(alignment, bytes); },
                                 [](void* memory, std::size_t, void*) { std::free(memory); }, nullptr});
  {
    StorageArena arena(16u << 20);
    const auto a = arena.allocate(5u << 20), b = arena.allocate(100);
    CHECK(asked == std::vector<std::size_t>{5u << 20, 128});
  }
  bantam::set_storage_allocator({});
  const std::int64_t before = resident();
  StorageArena small(8192);
  const auto a = small.allocate(4096), b = small.allocate(4096);
  std::fill_n(a.get(), 4096, std::byte{1});
  CHECK(resident() - before < 1 << 20);
}
