// How much a client may ask for in a minute.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bantam/core/hash.hpp"

namespace bantam::server {

struct RateOptions {
  std::int64_t requests = 0;  ///< a minute; 0: any number
  std::int64_t tokens = 0;    ///< read and generated, in the same way
};

/// Buckets that fill in a minute: who paused may ask for a minute's worth at once. Tokens are spent when they are known, at a request's end, so
/// that a bucket may owe some; a request is let in while it does not. Who asked longest ago is forgotten, as if it never had, where
/// many ask. Safe from any thread.
class RateLimits {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Headers = std::vector<std::pair<std::string, std::string>>;
  static constexpr std::size_t most_clients = 65536;

  explicit RateLimits(RateOptions options) : options_(options) {}
  [[nodiscard]] bool is_on() const noexcept { return options_.requests > 0 || options_.tokens > 0; }

  struct Verdict {
    std::string_view exhausted = {};  ///< "requests" or "tokens"; empty: let in, and a request spent
    std::int64_t limit = 0;           ///< of that
    double wait_s = 0;                ///< until it would be let in
    Headers headers = {};             ///< OpenAI's x-ratelimit-*
  };
  [[nodiscard]] Verdict ask(const std::string& client, Time now);
  void spend_tokens(const std::string& client, std::int64_t tokens, Time now);

  /// Since the beginning.
  struct Counts {
    std::uint64_t requests = 0, tokens = 0;  ///< requests refused for want of either
    std::size_t clients = 0;                 ///< that are remembered
  };
  [[nodiscard]] Counts counts() const;

 private:
  struct Client {
    std::string name;
    double requests, tokens;  ///< that are left; tokens may be below 0
    Time then;
  };
  Client& find(const std::string& client, Time now);

  const RateOptions options_;
  mutable std::mutex mutex_;
  std::list<Client> clients_;  ///< who asked last first
  HashMap<std::string_view, std::list<Client>::iterator> by_name_;
  Counts counts_;
};

/// Who shares a limit with whom: an IPv4 address is a client, of IPv6 the network of 64 bits that a subscriber has.
[[nodiscard]] std::string network_of(const std::string& address);

}  // namespace bantam::server
