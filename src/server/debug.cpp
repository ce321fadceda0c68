// GET /debug/trace?seconds=N: what happens in so many seconds, for Perfetto.
#include <charconv>

#include "server/models.hpp"

namespace bantam::server {

void debug_trace(Models& models, const std::shared_ptr<Exchange>& exchange) {
  constexpr int longest = 300;
  constexpr std::string_view name = "seconds=";
  const std::string_view query = exchange->request().query;
  int seconds = 1;
  if (!query.empty()) {
    const std::string_view digits = query.substr(std::min(name.size(), query.size()));
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), seconds);
    if (!query.starts_with(name) || code != std::errc() || end != digits.data() + digits.size() || seconds < 0 || seconds > longest)
      throw bad_request(message("seconds: expected 0 to ", longest, ", found ", printable(query)), "seconds");
  }
  Common& common = models.common();
  common.front.trace().watch();
  const auto since = std::chrono::steady_clock::now();
  common.http.post([&common, exchange, seconds, since] {
    common.http.after(std::chrono::seconds(seconds), [&common, exchange, since] {
      common.answer(*exchange, HttpReply{.body = common.front.trace().json(since)});
      common.front.trace().unwatch();
    });
  });
}

}  // namespace bantam::server
