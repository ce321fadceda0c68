// Keeping events, and writing them.
#include "server/trace.hpp"

#include <algorithm>

#include "io/json.hpp"

namespace bantam::server {

void Trace::watch() {
  const std::lock_guard lock(mutex_);
  ++watchers_;
}

void Trace::unwatch() {
  const std::lock_guard lock(mutex_);
  if (--watchers_ == 0) events_.clear();
}

void Trace::keep(Event event) {
  if (events_.size() >= most_events) {
    events_.pop_front();
    ++dropped_;
  }
  events_.push_back(std::move(event));
}

void Trace::add(const RequestRecord& r) {
  const std::lock_guard lock(mutex_);
  if (watchers_ == 0) return;
  keep({.name = "request",
        .begin = r.came,
        .end = r.ended,
        .request = r.number,
        .prompt_tokens = r.prompt_tokens,
        .tokens = r.generated_tokens,
        .status = r.status,
        .about = r.method + ' ' + r.path + (r.model.empty() ? "" : ", " + r.model)});
  if (r.first_token == Time{}) return;
  // Phases as the scheduler measured them, backwards from the first token: what came before the queue is parsing and grammars, what
  // follows the last token is the answer's way out.
  const auto ms = [](double t) { return std::chrono::duration_cast<Time::duration>(std::chrono::duration<double, std::milli>(t)); };
  const Time read = std::clamp(r.first_token - ms(r.prompt_ms), r.came, r.first_token), queued = std::clamp(read - ms(r.waited_ms), r.came, read);
  const Time written = std::min(r.ended, r.first_token + ms(r.generate_ms));
  const auto phase = [&](std::string_view name, Time begin, Time end) { keep({.name = name, .begin = begin, .end = end, .request = r.number}); };
  phase("parse", r.came, queued);
  phase("queue", queued, read);
  phase("prompt", read, r.first_token);
  phase("generate", r.first_token, written);
  phase("answer", written, r.ended);
}

void Trace::add_pass(const SchedulerPass& pass) {
  const std::lock_guard lock(mutex_);
  if (watchers_ == 0) return;
  keep({.name = pass.prompt_tokens > 0 ? "prompt piece" : "decode", .begin = pass.begin, .end = pass.end, .prompt_tokens = pass.prompt_tokens, .tokens = pass.texts, .weights = pass.weights});
}

std::string Trace::json(Time since) const {
  const auto us = [](Time t) { return std::chrono::duration<double, std::micro>(t.time_since_epoch()).count(); };
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":["
                    "{\"ph\":\"M\",\"pid\":1,\"tid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"bantam serve\"}},"
                    "{\"ph\":\"M\",\"pid\":1,\"tid\":1,\"name\":\"thread_name\",\"args\":{\"name\":\"scheduler\"}}";
  const std::lock_guard lock(mutex_);
  for (const Event& e : events_) {
    if (e.end < since) continue;
    Json json = {{"name", e.name}, {"pid", 1}, {"tid", 1}, {"ts", us(e.begin)}};
    Json args = Json::object();
    if (e.request == 0) {
      args = {{"prompt_tokens", e.prompt_tokens}, {"texts", e.tokens}};
      const StreamStats& w = e.weights;
      if (w.streamed_bytes > 0) args["weights_read_bytes"] = w.streamed_bytes, args["weights_waited_ms"] = 1e3 * w.waited_seconds;
      if (w.expert_hits + w.expert_misses > 0) args["expert_hits"] = w.expert_hits, args["expert_misses"] = w.expert_misses;
      json["ph"] = "X";
      json["cat"] = "step";
      json["dur"] = us(e.end) - us(e.begin);
    } else {
      // Requests overlap: each is a track of its own, by its number.
      if (!e.about.empty()) args = {{"what", e.about}, {"status", e.status}, {"prompt_tokens", e.prompt_tokens}, {"generated_tokens", e.tokens}};
      json["ph"] = "b";
      json["cat"] = "request";
      json["id"] = e.request;
    }
    json["args"] = std::move(args);
    out += ',' + json.dump(Json::Style{.replace_invalid = true});
    if (e.request == 0) continue;
    json["ph"] = "e";
    json["ts"] = us(e.end);
    json["args"] = Json::object();
    out += ',' + json.dump(Json::Style{.replace_invalid = true});
  }
  return out + "]}\n";
}

Trace::Counts Trace::counts() const {
  const std::lock_guard lock(mutex_);
  return {.kept = events_.size(), .dropped = dropped_};
}

}  // namespace bantam::server
