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
  struct Watched {
    Watched(Trace& t, std::shared_ptr<Exchange> e) : trace(t), exchange(std::move(e)) { trace.watch(); }
    ~Watched() { trace.unwatch(); }
    Trace& trace;
    std::shared_ptr<Exchange> exchange;
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
  };
  // Ends with the answer, or when nobody wants that any more: both on the server's thread.
  const auto watched = std::make_shared<std::unique_ptr<Watched>>(std::make_unique<Watched>(models.common().front.trace(), exchange));
  exchange->on_gone([watched] { watched->reset(); });
  models.common().http.post([&common = models.common(), watched, seconds] {
    common.http.after(std::chrono::seconds(seconds), [&common, watched] {
      const std::unique_ptr<Watched> ended = std::move(*watched);
      if (ended) common.answer(*ended->exchange, HttpReply{.body = common.front.trace().json(ended->since)});
    });
  });
}

}  // namespace bantam::server
