// Letting in, and following.
#include "server/front.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "bantam/io/file.hpp"
#include "io/json.hpp"
#include "server/fields.hpp"
#include "server/time_text.hpp"

namespace bantam::server {

namespace {

/// Of what is logged of a body.
constexpr std::size_t most_text = std::size_t{64} << 10;

HttpReply refusal(const ApiError& error, std::string_view path, double wait_s) {
  HttpReply reply = error.reply(path);
  std::erase_if(reply.headers, [](const auto& header) { return header.first == "Retry-After"; });
  reply.headers.emplace_back("Retry-After", message(std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(wait_s)))));
  return reply;
}

}  // namespace

/// Passes everything on, and notices the end.
class Front::Followed final : public Exchange {
 public:
  Followed(Front& front, std::shared_ptr<Exchange> exchange, RequestRecord record)
      : front_(front), exchange_(std::move(exchange)), record_(std::move(record)) {}
  ~Followed() override {
    try {
      end_with(client_gone);
    } catch (const std::exception&) {
      // Without memory for a line there is none.
    }
  }

  [[nodiscard]] const HttpRequest& request() const noexcept override { return exchange_->request(); }
  void reply(HttpReply reply) override {
    keep(reply.body);
    end_with(reply.status);
    exchange_->reply(std::move(reply));
  }
  void expect_stream(StreamForm form) override { exchange_->expect_stream(form); }
  void send(std::string events) override {
    keep(events);
    exchange_->send(std::move(events));
  }
  void end() override {
    end_with(200);
    exchange_->end();
  }
  void on_gone(std::function<void()> f) override { exchange_->on_gone(std::move(f)); }
  [[nodiscard]] RequestRecord* record() noexcept override { return &record_; }

 private:
  void keep(std::string_view text) {
    if (!front_.options_.log.has_texts || has_ended_) return;
    record_.answer += text.substr(0, most_text - std::min(most_text, record_.answer.size()));
  }
  /// Once. A stream that broke off has its status already.
  void end_with(int status) {
    if (has_ended_.exchange(true)) return;
    if (record_.status == 0) record_.status = status;
    front_.ended(record_);
  }

  Front& front_;
  const std::shared_ptr<Exchange> exchange_;
  RequestRecord record_;
  std::atomic<bool> has_ended_{false};
};

Front::Front(FrontOptions options, std::function<void(std::string_view)> note)
    : options_(std::move(options)),
      note_(std::move(note)),
      rates_(options_.rates),
      guesses_({.tokens = options_.wrong_keys}),  // which are spent when they are known
      breaker_(options_.breaker),
      probe_(options_.probe, note_),
      trace_(!options_.trace_file.empty()),
      log_(options_.log, note_) {
  if (!options_.governor) return;
  governor_ = std::make_unique<Governor>(*options_.governor, note_);
  governor_->start();
}

std::optional<HttpReply> Front::admit(const HttpRequest& request, const std::string& client, bool generates, HttpHeaders& headers, Time now) {
  // Looking costs little, and who watches a server must see it refuse.
  if (request.method == "GET") return std::nullopt;
  RateLimits::Verdict verdict = rates_.ask(client, now);
  headers = std::move(verdict.headers);
  if (!verdict.exhausted.empty()) {
    return refusal(ApiError(429, "rate_limit_error", message("more than ", verdict.limit, ' ', verdict.exhausted, " a minute"), {}, "rate_limit_exceeded"),
                   request.path, verdict.wait_s);
  }
  if (!generates) return std::nullopt;
  const std::optional<double> wait_s = breaker_.ask(now);
  if (!wait_s) return std::nullopt;
  return refusal(ApiError(503, "overloaded_error", "too many requests failed or came late: this server takes none for a while"), request.path, *wait_s);
}

std::optional<HttpReply> Front::refuse_guesser(const HttpRequest& request, Time now) {
  if (!guesses_.is_on()) return std::nullopt;
  const RateLimits::Verdict verdict = guesses_.ask(network_of(request.peer), now);
  if (verdict.exhausted.empty()) return std::nullopt;
  return refusal(ApiError(429, "rate_limit_error", message("more than ", verdict.limit, " wrong keys a minute from this address"), {}, "rate_limit_exceeded"),
                 request.path, verdict.wait_s);
}

void Front::guessed(const HttpRequest& request, Time now) {
  if (guesses_.is_on()) guesses_.spend_tokens(network_of(request.peer), 1, now);
}

RequestRecord Front::begin(const HttpRequest& request, std::string client) {
  RequestRecord record;
  record.number = ++numbers_;
  record.method = request.method;
  record.path = request.path;
  record.client = std::move(client);
  record.came = std::chrono::steady_clock::now();
  return record;
}

std::shared_ptr<Exchange> Front::follow(std::shared_ptr<Exchange> exchange, std::string client, bool generates) {
  const HttpRequest& request = exchange->request();
  RequestRecord record = begin(request, std::move(client));
  record.generates = generates;
  if (options_.log.has_texts) record.question = request.body.substr(0, most_text);
  return std::make_shared<Followed>(*this, std::move(exchange), std::move(record));
}

void Front::refused(const HttpRequest& request, std::string client, int status) {
  RequestRecord record = begin(request, std::move(client));
  record.status = status;
  record.ended = record.came;
  log(record);
}

void Front::ended(RequestRecord& r) {
  r.ended = std::chrono::steady_clock::now();
  tokens_ += r.prompt_tokens - r.reused_tokens + r.generated_tokens;
  rates_.spend_tokens(r.client, r.prompt_tokens + r.generated_tokens, r.ended);
  constexpr int broken = 500, not_supported = 501;
  // Who goes away without a token waited in vain until then.
  const bool has_waited = r.first_token != Time{} || r.status == client_gone;
  const Time first = r.first_token != Time{} ? r.first_token : r.ended;
  const bool is_late = has_waited && breaker_.is_late(std::chrono::duration<double>(first - r.came).count());
  if (r.generates) breaker_.ended(is_late || (r.status >= broken && r.status != not_supported), r.came, r.ended);
  trace_.add(r);
  log(r);
}

void Front::log(const RequestRecord& r) {
  if (options_.log.path.empty() || r.method == "GET") return;
  const auto ms = [](Time from, Time to) { return std::chrono::duration<double, std::milli>(to - from).count(); };
  Json line = {{"time", time_text(std::chrono::system_clock::now())},
               {"request", r.number},
               {"client", r.client},
               {"method", r.method},
               {"endpoint", r.path},
               {"model", r.model.empty() ? Json() : Json(r.model)},
               {"status", r.status},
               {"prompt_tokens", r.prompt_tokens},
               {"cached_tokens", r.reused_tokens},
               {"completion_tokens", r.generated_tokens},
               {"queue_ms", r.waited_ms},
               {"first_token_ms", r.first_token == Time{} ? Json() : Json(ms(r.came, r.first_token))},
               {"total_ms", ms(r.came, r.ended)}};
  if (options_.log.has_texts) {
    line["body"] = r.question;
    line["answer"] = r.answer;
  }
  log_.add(line.dump(Json::Style{.replace_invalid = true}));
}

void Front::save_trace() const {
  if (options_.trace_file.empty()) return;
  try {
    AtomicFile file(options_.trace_file);
    file.write(trace_.json(Time{}));
    file.commit();
  } catch (const Error& error) {
    note_(error.what());
  }
}

void Front::add_power(std::vector<Figure>& all) const {
  if (governor_ == nullptr) return;
  const Governor::Figures f = governor_->figures();
  const auto add = [&](std::string_view name, std::string_view type, std::string_view help, double value, std::string_view labels = {}) {
    all.push_back({name, type, help, value, labels});
  };
  add("bantam:governor_share", "gauge", "Of threads and places, how much may be used.", share());
  add("bantam:governor_steps_total", "counter", "Steps that the governor took.", static_cast<double>(f.steps_down), "direction=\"down\"");
  add("bantam:governor_steps_total", "counter", "", static_cast<double>(f.steps_up), "direction=\"up\"");
  add("bantam:throttles_total", "counter", "Times that processors slowed themselves down for heat.", static_cast<double>(f.reading.throttles));
  add("bantam:on_battery", "gauge", "1: a battery gives the power.", f.reading.on_battery ? 1 : 0);
  if (!f.reading.hottest.empty()) {
    add("bantam:temperature_celsius", "gauge", "Of the sensor that is nearest to its limit.", f.reading.hottest_c);
    add("bantam:temperature_headroom_celsius", "gauge", "From there to the limit.", f.reading.headroom_c);
  }
  if (f.watts) add("bantam:power_watts", "gauge", "Of the processors' packages, or else the battery.", *f.watts);
  if (!f.joules) return;
  add("bantam:energy_joules_total", "counter", "Of the processors' packages, or else the battery.", *f.joules);
  if (const std::int64_t tokens = tokens_; tokens > 0)
    add("bantam:joules_per_token", "gauge", "Since the beginning, of tokens that were read or generated.", *f.joules / static_cast<double>(tokens));
}

std::vector<Figure> Front::figures() {
  std::vector<Figure> all;
  const auto counter = [&](std::string_view name, std::string_view help, auto value, std::string_view labels = {}) {
    all.push_back({name, "counter", help, static_cast<double>(value), labels});
  };
  const auto gauge = [&](std::string_view name, std::string_view help, auto value) { all.push_back({name, "gauge", help, static_cast<double>(value)}); };
  const RateLimits::Counts rates = rates_.counts();
  counter("bantam:rate_limited_total", "Requests refused for want of what a client may ask for in a minute.", rates.requests, "what=\"requests\"");
  counter("bantam:rate_limited_total", "", rates.tokens, "what=\"tokens\"");
  counter("bantam:rate_limited_total", "", guesses_.counts().tokens, "what=\"wrong_keys\"");
  gauge("bantam:rate_clients", "Clients whose limits are remembered.", rates.clients);
  const Breaker::Counts breaker = breaker_.counts(std::chrono::steady_clock::now());
  gauge("bantam:breaker_state", "0: all are let in, 1: some to probe, 2: none.", static_cast<int>(breaker.state));
  gauge("bantam:breaker_failed_share", "Of requests in the breaker's window, how many failed or came late.", breaker.share);
  counter("bantam:breaker_opened_total", "Times that the breaker opened.", breaker.opened);
  counter("bantam:breaker_refused_total", "Requests that it refused.", breaker.refused);
  const Probe::Counts probes = probe_.counts();
  gauge("bantam:probe_healthy", "0: the last probe found something else than it expects, or nothing.", probe_.complaint() ? 0 : 1);
  counter("bantam:probes_total", "Probes, by what they found.", probes.same, "result=\"same\"");
  counter("bantam:probes_total", "", probes.other, "result=\"other\"");
  counter("bantam:probes_total", "", probes.failed, "result=\"failed\"");
  counter("bantam:probes_total", "", probes.skipped, "result=\"skipped\"");
  const RequestLog::Counts log = log_.counts();
  counter("bantam:request_log_lines_total", "Requests that were logged.", log.written);
  counter("bantam:request_log_lost_total", "Requests that the log has not, because it could not be written.", log.lost);
  counter("bantam:request_log_files_total", "Files of the log that were put aside.", log.files);
  gauge("bantam:most_logprobs", "Log probabilities that a client may ask for beside a token; -1: none, not even of the token.", options_.most_logprobs);
  const Trace::Counts trace = trace_.counts();
  gauge("bantam:trace_events", "Events that are kept for a trace.", trace.kept);
  counter("bantam:trace_dropped_total", "Events that made room for newer ones.", trace.dropped);
  add_power(all);
  return all;
}

}  // namespace bantam::server
