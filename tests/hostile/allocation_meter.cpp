// Replaces the global operator new of this test program by one that counts.
#include "hostile/allocation_meter.hpp"

#include <malloc.h>

#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> live = 0;
std::atomic<std::size_t> peak = 0;

}  // namespace

namespace bantam::test {

std::size_t live_bytes() noexcept { return live; }
std::size_t peak_bytes() noexcept { return peak; }
void reset_peak() noexcept { peak = live.load(); }

}  // namespace bantam::test

void* operator new(std::size_t size) {
  void* p = std::malloc(size == 0 ? 1 : size);
  if (p == nullptr) throw std::bad_alloc();
  const std::size_t now = live += malloc_usable_size(p);
  std::size_t highest = peak;
  while (now > highest && !peak.compare_exchange_weak(highest, now)) {
  }
  return p;
}

void operator delete(void* p) noexcept {
  if (p != nullptr) live -= malloc_usable_size(p);
  std::free(p);
}

void operator delete(void* p, std::size_t) noexcept { operator delete(p); }
