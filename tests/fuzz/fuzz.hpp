// What fuzzers share: choices read from the fuzzer's bytes, files to open, and the promise that every input is judged by.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/core/error.hpp"

namespace bantam::fuzz {

using Bytes = std::span<const std::uint8_t>;
/// Changes an input in place of libFuzzer's own bytes and bits: (input, seed) to the next input.
using Mutator = std::string (*)(std::string_view input, std::uint64_t seed);

/// One fuzzer. Each file defines one as a constant of its own, which puts it into the list.
struct Target {
  Target(std::string_view name, void (*run)(Bytes), Mutator mutate = nullptr);
  std::string_view name;
  void (*run)(Bytes);
  Mutator mutate;
};
/// By name.
[[nodiscard]] const std::vector<const Target*>& targets();

/// An input showed that a promise does not hold.
struct Broken : std::logic_error {
  using std::logic_error::logic_error;
};
inline void require(bool holds, std::string_view promise) {
  if (!holds) throw Broken(std::string(promise));
}

/// Runs f: it may end, or throw one bantam::Error of one line that is no excuse for a want of memory. True when it ended.
template <class F>
bool survives(F&& f) {
  try {
    f();
    return true;
  } catch (const Error& error) {
    const std::string_view line = error.what();
    require(!line.empty() && line.find('\n') == line.npos, "an error is one line");
    require(error.code() != Errc::out_of_memory, "what is small takes little memory");
    return false;
  }
}

/// Reads what an input is made of from the fuzzer's bytes, front to back: a byte more or less changes one choice, and the
/// result is well-formed wherever the maker wants it to be. When they have run out, every choice is 0. One choice a statement: compilers
/// take operands and arguments in orders of their own, and an input has to mean the same to all of them.
class Choices {
 public:
  explicit Choices(Bytes bytes) : left_(bytes) {}

  [[nodiscard]] bool done() const { return left_.empty(); }
  template <std::integral T = std::uint8_t>
  T raw() {
    T value = 0;
    for (std::size_t i = 0; i < sizeof value; ++i) value = static_cast<T>(static_cast<std::uint64_t>(value) | std::uint64_t{next()} << 8 * i);
    return value;
  }
  /// From 0 to count - 1; count is at most 65536.
  std::size_t below(std::size_t count) {
    if (count <= 1) return 0;
    return (count <= 256 ? raw<std::uint8_t>() : raw<std::uint16_t>()) % count;
  }
  std::int64_t between(std::int64_t least, std::int64_t most) { return least + static_cast<std::int64_t>(below(static_cast<std::size_t>(most - least + 1))); }
  /// Once in `times`; not when the bytes have run out.
  bool once_in(std::size_t times) { return below(times) == times - 1; }
  template <class T>
  const T& of(std::span<const T> list) { return list[below(list.size())]; }
  template <class T, std::size_t n>
  const T& of(const T (&list)[n]) { return list[below(n)]; }
  /// A number that programs stumble over, or any.
  std::uint64_t number();
  /// Up to `longest` bytes, taken as they are.
  std::string text(std::size_t longest);
  /// All that are left.
  std::string rest();

 private:
  std::uint8_t next() {
    if (left_.empty()) return 0;
    const std::uint8_t byte = left_.front();
    left_ = left_.subspan(1);
    return byte;
  }
  Bytes left_;
};

/// A few bytes changed, put in, cut off: what a structure that is well-formed does not cover.
void damage(std::string& bytes, Choices& choices);

/// Parses `text` as JSON and changes its tree: values, keys, members that come twice or not at all, parts of it elsewhere.
[[nodiscard]] std::string mutate_json(std::string_view text, std::uint64_t seed);

/// A folder in memory where the machine has one, for files that one input is made of; gone with the process.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  /// Writes a new file in place of one of that name, and returns its path.
  std::filesystem::path put(std::string_view name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

inline std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace bantam::fuzz
