// The one exception type of the library and the categories that callers may act on.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "bantam/core/message.hpp"

namespace bantam::inline v0 {

/// What kind of thing went wrong. Values are frozen: the C ABI returns them negated.
enum class Errc : std::uint8_t {
  invalid_argument = 1,  ///< the caller asked for something that makes no sense
  not_found = 2,         ///< a file, tensor, key or name does not exist
  io = 3,                ///< the operating system refused a read or a write
  corrupt = 4,           ///< bytes from outside break their format
  unsupported = 5,       ///< well-formed, but nothing here can handle it (yet)
  out_of_memory = 6,
  cancelled = 7,  ///< the user asked to stop
  // 8 is a mistake of the library in the C ABI.
  grammar = 9,  ///< a text cannot go on under its grammar: the vocabulary has no token for what is next, or there are too many ways to read it
};

/// An error of the world: a file, an argument, memory, cancellation. Errors of our own are BANTAM_ASSERT.
/// The message is one lower-case line that names the place, what was expected and what was found.
class Error : public std::runtime_error {
 public:
  Error(Errc code, const std::string& message) : std::runtime_error(message), code_(code) {}

  [[nodiscard]] Errc code() const noexcept { return code_; }

 private:
  Errc code_;
};

/// Throws Error with the message built from its arguments: fail(Errc::corrupt, path, ": expected ", n, " bytes").
template <class... Args>
[[noreturn]] void fail(Errc code, const Args&... args) {
  throw Error(code, message(args...));
}

}  // namespace bantam::inline v0

/// Checks a promise that our own code makes. Active in debug and sanitizer builds only; not <cassert>'s assert, which
/// NDEBUG switches off in sanitizer builds too.
#if defined(BANTAM_CHECKED) || !defined(NDEBUG)
#include <cstdio>
#include <cstdlib>
namespace bantam::inline v0::detail {
[[noreturn]] inline void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken promise: %s\n", file, line, condition);
  std::abort();
}
}  // namespace bantam::inline v0::detail
#define BANTAM_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::bantam::detail::assertion_failed(#condition, __FILE__, __LINE__))
#else
#define BANTAM_ASSERT(condition) ((void)0)
#endif
