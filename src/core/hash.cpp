// The key of this process's hash maps.
#include "bantam/core/hash.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <chrono>

namespace bantam::inline v0 {

namespace {

HashKey draw_key() noexcept {
  HashKey key{};
  if (::getrandom(&key, sizeof key, GRND_NONBLOCK) == sizeof key) return key;
  // A machine that has just started, or a sandbox without the call: what an author of files does not know either.
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::uint64_t seeds[] = {static_cast<std::uint64_t>(now), reinterpret_cast<std::uintptr_t>(&key), static_cast<std::uint64_t>(::getpid())};
  const std::string_view text(reinterpret_cast<const char*>(seeds), sizeof seeds);
  return {sip_hash<2, 4>(text, {1, 2}), sip_hash<2, 4>(text, {3, 4})};
}

}  // namespace

HashKey process_hash_key() noexcept {
  static const HashKey key = draw_key();
  return key;
}

}  // namespace bantam::inline v0
