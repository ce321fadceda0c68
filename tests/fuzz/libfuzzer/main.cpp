// Every fuzzer in one program, which links once: its first argument names the target, the others are libFuzzer's.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// What tests share speaks of doctest. No case of it runs here.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "fuzz/fuzz.hpp"

using namespace bantam::fuzz;

namespace {

const Target* chosen = nullptr;

}  // namespace

extern "C" {

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view option = "--target=";
  std::string_view wanted = *argc > 1 ? (*argv)[1] : "";
  if (wanted.starts_with(option)) wanted.remove_prefix(option.size());
  for (const Target* target : targets()) {
    if (target->name == wanted) chosen = target;
  }
  if (chosen == nullptr) {
    if (wanted != "--list") std::fprintf(stderr, "usage: %s TARGET [libFuzzer's options] [folders or files]; targets:\n", (*argv)[0]);
    for (const Target* target : targets()) std::printf("%s\n", std::string(target->name).c_str());
    std::exit(wanted == "--list" ? 0 : 2);
  }
  // libFuzzer takes a word that is no option for a corpus. As an option that it does not know it is passed over, and handed on to
  // the processes that merges and forks start.
  static char name[64];
  std::snprintf(name, sizeof name, "%s%s", std::string(option).c_str(), std::string(chosen->name).c_str());
  (*argv)[1] = name;
  // What a target makes once, models and files, takes up to some seconds of a busy machine. It is no input's time.
  const std::array<std::uint8_t, 8> first{};
  chosen->run(first);
  return 0;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->run({data, size});
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  // Half of the changes are libFuzzer's own: bytes, its dictionary, what comparisons showed.
  if (chosen->mutate == nullptr || seed % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  const std::string changed = chosen->mutate(text_of({data, size}), seed);
  if (changed.size() > most || changed == text_of({data, size})) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}
}
