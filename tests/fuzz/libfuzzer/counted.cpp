// What directs libFuzzer where gcc compiles: its -fsanitize-coverage=trace-pc calls a function in every block, which counts by the address that
// called it. libFuzzer takes what it finds in the section __libfuzzer_extra_counters for coverage.
#include <cstddef>
#include <cstdint>

namespace {

// The library has a hundred thousand blocks; libFuzzer looks through all counters after each input.
constexpr unsigned counter_bits = 18;
__attribute__((section("__libfuzzer_extra_counters"))) std::uint8_t counters[std::size_t{1} << counter_bits];

}  // namespace

// The linker gives this name to the calls (--wrap): libFuzzer has a function of the other name that does nothing.
extern "C" void __wrap___sanitizer_cov_trace_pc() {
  const auto caller = reinterpret_cast<std::uint64_t>(__builtin_return_address(0));
  // Fibonacci hashing. Threads may lose a count of each other.
  std::uint8_t& counter = counters[caller * 0x9e3779b97f4a7c15u >> (64 - counter_bits)];
  if (counter < 255) ++counter;
}
