// What stands in front of all handlers: who is let in, and what is kept of each request when it ends.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/breaker.hpp"
#include "server/governor.hpp"
#include "server/http.hpp"
#include "server/probe.hpp"
#include "server/rate_limits.hpp"
#include "server/request_log.hpp"
#include "server/request_record.hpp"
#include "server/trace.hpp"

namespace bantam::server {

struct FrontOptions {
  RateOptions rates = {};
  std::int64_t wrong_keys = 0;  ///< a minute from an address; 0: any number
  BreakerOptions breaker = {};
  RequestLogOptions log = {};
  ProbeOptions probe = {};
  std::optional<GovernorPolicy> governor = {};
  int most_logprobs = 100;      ///< beside a token; fewer: and none beside logit_bias; -1: no log probabilities and no logit_bias
  std::string trace_file = {};  ///< written when the server ends; empty: events are kept while somebody asks for them
};

/// A line of /metrics.
struct Figure {
  std::string_view name, type, help;
  double value;
  std::string_view labels = {};
};

/// Safe from any thread.
class Front {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Front(FrontOptions options, std::function<void(std::string_view)> note);

  /// What a request that runs the model, or reads what somebody sent, is refused with, if it is. `headers` go with whatever is answered.
  [[nodiscard]] std::optional<HttpReply> admit(const HttpRequest& request, const std::string& client, bool generates, HttpHeaders& headers, Time now);
  /// What a request is refused with that comes from where too many keys were guessed, whatever its key is: if it is.
  [[nodiscard]] std::optional<HttpReply> refuse_guesser(const HttpRequest& request, Time now);
  /// Somebody there named a wrong key.
  void guessed(const HttpRequest& request, Time now);
  /// A request that was let in: when its answer is whole, or nobody is left who could give one, it is counted, logged and drawn.
  [[nodiscard]] std::shared_ptr<Exchange> follow(std::shared_ptr<Exchange> exchange, std::string client, bool generates);
  /// One that was refused before it was read.
  void refused(const HttpRequest& request, std::string client, int status);

  [[nodiscard]] const FrontOptions& options() const noexcept { return options_; }
  /// Of threads and places, how much models may use now.
  [[nodiscard]] double share() const noexcept { return governor_ ? governor_->share() : 1; }
  [[nodiscard]] std::vector<Figure> figures();
  [[nodiscard]] Trace& trace() noexcept { return trace_; }
  [[nodiscard]] Probe& probe() noexcept { return probe_; }
  /// Writes FrontOptions::trace_file, and tells `note` why where that fails.
  void save_trace() const;

 private:
  class Followed;
  void add_power(std::vector<Figure>& all) const;
  [[nodiscard]] RequestRecord begin(const HttpRequest& request, std::string client);
  void ended(RequestRecord& record);
  void log(const RequestRecord& record);

  const FrontOptions options_;
  const std::function<void(std::string_view)> note_;
  RateLimits rates_, guesses_;
  Breaker breaker_;
  Probe probe_;
  Trace trace_;
  RequestLog log_;
  std::unique_ptr<Governor> governor_;  ///< null: nobody governs
  std::atomic<std::uint64_t> numbers_{0};
  std::atomic<std::int64_t> tokens_{0};  ///< read and generated for requests that ended
};

}  // namespace bantam::server
