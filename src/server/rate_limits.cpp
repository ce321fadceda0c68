// Buckets that fill.
#include "server/rate_limits.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cmath>

#include "bantam/core/message.hpp"

namespace bantam::server {

namespace {

constexpr double minute_s = 60;
/// One, but for what adding up parts of it loses.
constexpr double whole = 1 - 1e-9;

/// "6m0s", "1.5s", "20ms": a duration as OpenAI's headers have it.
std::string duration_text(double seconds) {
  const auto ms = static_cast<std::int64_t>(std::ceil(1000 * seconds));
  if (ms < 1000) return message(ms, "ms");
  const std::int64_t minutes = ms / 60000, rest = ms % 60000;
  const std::string tail = rest % 1000 == 0 ? message(rest / 1000, 's') : message(static_cast<double>(rest / 100) / 10, 's');
  return minutes > 0 ? message(minutes, 'm', tail) : tail;
}

}  // namespace

std::string network_of(const std::string& address) {
  in6_addr bytes{};
  if (inet_pton(AF_INET6, address.c_str(), &bytes) != 1) return address;
  constexpr std::size_t network_bytes = 8;
  // ::ffff:1.2.3.4 is an address of IPv4 that came by a socket of both.
  if (IN6_IS_ADDR_V4MAPPED(&bytes)) return message(int{bytes.s6_addr[12]}, '.', int{bytes.s6_addr[13]}, '.', int{bytes.s6_addr[14]}, '.', int{bytes.s6_addr[15]});
  std::fill(bytes.s6_addr + network_bytes, bytes.s6_addr + sizeof bytes.s6_addr, std::uint8_t{0});
  char text[INET6_ADDRSTRLEN];
  return message(inet_ntop(AF_INET6, &bytes, text, sizeof text), "/64");
}

RateLimits::Client& RateLimits::find(const std::string& name, Time now) {
  const auto found = by_name_.find(name);
  const auto most_requests = static_cast<double>(options_.requests), most_tokens = static_cast<double>(options_.tokens);
  if (found != by_name_.end()) {
    clients_.splice(clients_.begin(), clients_, found->second);
    Client& client = clients_.front();
    const double minutes = std::max(0.0, std::chrono::duration<double>(now - client.then).count()) / minute_s;
    client.requests = std::min(most_requests, client.requests + minutes * most_requests);
    client.tokens = std::min(most_tokens, client.tokens + minutes * most_tokens);
    client.then = std::max(client.then, now);
    return client;
  }
  if (clients_.size() >= most_clients) {
    by_name_.erase(clients_.back().name);
    clients_.pop_back();
  }
  clients_.push_front({.name = name, .requests = most_requests, .tokens = most_tokens, .then = now});
  by_name_.emplace(clients_.front().name, clients_.begin());
  return clients_.front();
}

RateLimits::Verdict RateLimits::ask(const std::string& name, Time now) {
  Verdict verdict;
  if (!is_on()) return verdict;
  const std::lock_guard lock(mutex_);
  Client& client = find(name, now);
  const double each_s = minute_s / static_cast<double>(std::max<std::int64_t>(options_.requests, 1));
  const double token_s = minute_s / static_cast<double>(std::max<std::int64_t>(options_.tokens, 1));
  if (options_.requests > 0 && client.requests < whole) {
    verdict = {.exhausted = "requests", .limit = options_.requests, .wait_s = (1 - client.requests) * each_s};
    ++counts_.requests;
  } else if (options_.tokens > 0 && client.tokens < whole) {
    verdict = {.exhausted = "tokens", .limit = options_.tokens, .wait_s = (1 - client.tokens) * token_s};
    ++counts_.tokens;
  } else {
    client.requests -= 1;
  }
  const auto say = [&](std::string_view what, std::int64_t most, double left, double seconds_each) {
    if (most == 0) return;
    const double shown = std::max(0.0, std::floor(left + (1 - whole)));
    verdict.headers.emplace_back(message("x-ratelimit-limit-", what), message(most));
    verdict.headers.emplace_back(message("x-ratelimit-remaining-", what), message(static_cast<std::int64_t>(shown)));
    verdict.headers.emplace_back(message("x-ratelimit-reset-", what), duration_text((static_cast<double>(most) - left) * seconds_each));
  };
  say("requests", options_.requests, client.requests, each_s);
  say("tokens", options_.tokens, client.tokens, token_s);
  return verdict;
}

void RateLimits::spend_tokens(const std::string& name, std::int64_t tokens, Time now) {
  if (options_.tokens == 0 || tokens == 0) return;
  const std::lock_guard lock(mutex_);
  find(name, now).tokens -= static_cast<double>(tokens);
}

RateLimits::Counts RateLimits::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.clients = clients_.size();
  return counts;
}

}  // namespace bantam::server
