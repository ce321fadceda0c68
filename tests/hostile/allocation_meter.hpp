// Measures how much memory a piece of code asks for at its peak.
#pragma once

#include <atomic>
#include <cstddef>

namespace bantam::test {

/// Bytes that operator new has handed out and not got back, in this test program.
std::size_t live_bytes() noexcept;
/// The most that live_bytes() has been since the last reset.
std::size_t peak_bytes() noexcept;
void reset_peak() noexcept;

/// The peak of live bytes during f(), above what was live before.
template <class F>
std::size_t peak_of(F&& f) {
  reset_peak();
  const std::size_t before = live_bytes();
  f();
  return peak_bytes() - before;
}

}  // namespace bantam::test
