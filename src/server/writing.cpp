// Passing on what comes.
#include "server/writing.hpp"

#include <algorithm>

namespace bantam::server {

std::string_view finish_reason(TextEnd end) { return end == TextEnd::length ? "length" : "stop"; }

Writing::Writing(App& app, std::shared_ptr<Exchange> exchange, Asked asked)
    : app_(app), exchange_(std::move(exchange)), asked_(std::move(asked)),
      left_(asked_.texts.prompts.size() * static_cast<std::size_t>(asked_.texts.count)), stats_(left_), last_token_(left_),
      compares_(app.common.steering.compares(app.options.name)), nll_(compares_ ? left_ : 0) {
  asked_.texts.client = exchange_->request().peer;
}

void Writing::start() {
  check_room(app_, asked_.texts);
  check_logprobs(app_, asked_);
  const auto self = shared_from_this();
  TextRequest request = asked_.texts;
  if (compares_) request.top_logprobs = std::max(request.top_logprobs, 0);
  // Before anything can come: it begins the stream.
  if (asked_.stream) exchange_->expect_stream(stream_form());
  const auto id = app_.scheduler.submit(std::move(request), [self](const TextUpdate& update) {
    Update copy(update);
    if (self->asked_.keeps_stop) copy.piece += copy.stop_text;
    self->app_.common.http.post([self, copy = std::move(copy)] { self->update(copy); });
  });
  if (!id && app_.common.draining) throw ApiError(503, "unavailable_error", "the server is shutting down");
  if (!id) throw ApiError(429, "rate_limit_error", "too many requests are waiting", {}, "rate_limit_exceeded");
  id_ = *id;
  // Whoever is gone when all is written ends nothing.
  exchange_->on_gone([writing = weak_from_this(), request_id = *id] {
    if (const auto still = writing.lock()) still->app_.scheduler.cancel(request_id);
  });
}

void Writing::measure(const Update& update) {
  const auto now = std::chrono::steady_clock::now();
  const auto seconds_since = [&](std::chrono::steady_clock::time_point then) { return std::chrono::duration<double>(now - then).count(); };
  auto& last = last_token_[update.text];
  if (!update.tokens.empty()) {
    if (last == std::chrono::steady_clock::time_point{}) {
      app_.metrics.first_token(seconds_since(came_));
      app_.common.steering.first_token(app_.options.name, seconds_since(came_));
    } else {
      app_.metrics.next_token(seconds_since(last));
    }
    last = now;
  }
  stats_[update.text] = update.stats;
  record(update);
  if (compares_) {
    for (const DrawnToken& token : update.tokens) nll_[update.text] -= static_cast<double>(token.logprob);
    const bool is_whole = update.end == TextEnd::stop || update.end == TextEnd::length;
    if (is_whole) app_.common.steering.ended(app_.options.name, update.stats.generated_tokens, nll_[update.text]);
  }
  if (update.end != TextEnd::running) app_.metrics.ended(update.end, update.stats, seconds_since(came_));
}

/// For the log and the like.
void Writing::record(const Update& update) {
  RequestRecord* r = exchange_->record();
  if (r == nullptr) return;
  if (r->first_token == RequestRecord::Time{} && !update.tokens.empty()) r->first_token = last_token_[update.text];
  if (update.end == TextEnd::running) return;
  const TextStats& s = update.stats;
  r->generated_tokens += s.generated_tokens;
  // Texts of a prompt share it.
  if (update.text % static_cast<std::size_t>(asked_.texts.count) != 0) return;
  r->prompt_tokens += s.prompt_tokens;
  r->reused_tokens += s.reused_tokens;
  if (update.text != 0) return;
  r->waited_ms = s.waited_ms;
  r->prompt_ms = s.prompt_ms;
  r->generate_ms = s.generate_ms;
}

void Writing::update(const Update& update) {
  measure(update);
  if (failed_) return;
  try {
    switch (update.end) {
      case TextEnd::failed:
        if (update.code == Errc::grammar) throw Error(Errc::grammar, update.error);
        throw ApiError(500, "server_error", update.error);
      case TextEnd::late: throw ApiError(503, "unavailable_error", "the request took longer than the server lets it");
      case TextEnd::cancelled:
        // Else its client went away, and nobody reads an answer.
        if (app_.common.draining) throw ApiError(503, "unavailable_error", "the server is shutting down");
        failed_ = true;
        return;
      default: break;
    }
    const bool reads = asked_.texts.tells_reading && update.tokens.empty() && update.end == TextEnd::running;
    if (reads) say_progress(update);
    if (!reads || !update.prompt.empty()) take(update);
    if (update.end != TextEnd::running && --left_ == 0) return end_all();
    if (!held_.empty()) exchange_->send(std::exchange(held_, {}));
  } catch (const std::exception& error) {
    fail(to_api_error(error));
  }
}

/// How much of a prompt is read, as llama.cpp's server says it.
void Writing::say_progress(const Update& update) {
  Json json = bare_event(update.text);
  if (json.is_null()) return;
  const TextStats& s = update.stats;
  const double came_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - came_).count();
  json["prompt_progress"] = Json{{"total", s.prompt_tokens}, {"cache", s.reused_tokens}, {"processed", s.read_tokens}, {"time_ms", std::max(0.0, came_ms - s.waited_ms)}};
  event(json);
}

void Writing::end_all() {
  if (asked_.stream) {
    end_stream();
    app_.common.answers.add(200);
    exchange_->send(std::exchange(held_, {}));
    exchange_->end();
  } else {
    app_.answer(*exchange_, whole());
  }
}

/// Once: the other texts of the request are of no use to anybody.
void Writing::fail(const ApiError& error) {
  failed_ = true;
  if (RequestRecord* r = exchange_->record()) r->status = error.status();
  if (id_ != 0) app_.scheduler.cancel(id_);
  if (!streams_) {
    // Where the stream began with a comment alone, the answer is an event too.
    app_.answer(*exchange_, error);
    if (!asked_.stream) return;
  }
  end_stream_with(error);
  exchange_->send(std::exchange(held_, {}));
  exchange_->end();
}

void Writing::end_stream_with(const ApiError& error) {
  event(error.json(path()));
  done();
}

void Writing::done_in(Json frame) {
  if (asked_.include_usage) {
    frame["choices"] = Json::array();
    frame["usage"] = usage();
    if (asked_.timings) frame["timings"] = timings(stats_.front());
    event(frame);
  }
  done();
}

void Writing::event(const Json& json, std::string_view name) {
  if (!name.empty()) held_ += message("event: ", name, '\n');
  held_ += "data: ";
  line(json);
  held_ += '\n';
}

void Writing::line(const Json& json) {
  streams_ = true;
  held_ += json.dump(Json::Style{.replace_invalid = true});
  held_ += '\n';
}

void Writing::add_usage(Json& frame) const {
  if (asked_.include_usage) frame["usage"] = asked_.usage_so_far ? usage() : Json();
}

Json Writing::usage() const {
  std::int64_t prompt = 0, cached = 0, generated = 0;
  for (std::size_t i = 0; i < stats_.size(); ++i) {
    generated += stats_[i].generated_tokens;
    if (i % static_cast<std::size_t>(asked_.texts.count) != 0) continue;
    prompt += stats_[i].prompt_tokens;
    cached += stats_[i].reused_tokens;
  }
  Json details = Json::object();
  details["cached_tokens"] = cached;
  Json usage = {{"prompt_tokens", prompt}, {"completion_tokens", generated}, {"total_tokens", prompt + generated}};
  usage["prompt_tokens_details"] = std::move(details);
  return usage;
}

Json Writing::timings(const TextStats& s) {
  const std::int64_t read = s.prompt_tokens - s.reused_tokens;
  const auto each = [](double ms, std::int64_t count) { return count > 0 ? ms / static_cast<double>(count) : 0.0; };
  const auto rate = [](double ms, std::int64_t count) { return ms > 0 ? 1000 * static_cast<double>(count) / ms : 0.0; };
  Json timings = {{"cache_n", s.reused_tokens},
                  {"prompt_n", read},
                  {"prompt_ms", s.prompt_ms},
                  {"prompt_per_token_ms", each(s.prompt_ms, read)},
                  {"prompt_per_second", rate(s.prompt_ms, read)},
                  {"predicted_n", s.generated_tokens},
                  {"predicted_ms", s.generate_ms},
                  {"predicted_per_token_ms", each(s.generate_ms, s.generated_tokens)},
                  {"predicted_per_second", rate(s.generate_ms, s.generated_tokens)}};
  if (s.guessed_tokens > 0) {
    timings["draft_n"] = s.guessed_tokens;
    timings["draft_n_accepted"] = s.right_guesses;
  }
  return timings;
}

Json Writing::ids_of(std::span<const TokenId> tokens) {
  Json ids = Json::array();
  for (const TokenId token : tokens) ids.push_back(static_cast<std::int64_t>(token));
  return ids;
}

Json Writing::ids_of(std::span<const DrawnToken> tokens) {
  Json ids = Json::array();
  for (const DrawnToken& token : tokens) ids.push_back(static_cast<std::int64_t>(token.id));
  return ids;
}

std::string Writing::bytes_of(TokenId id) const {
  const Tokenizer& tokenizer = app_.tokenizer();
  return tokenizer.is_special(id) ? std::string(tokenizer.piece(id)) : tokenizer.piece_bytes(id);
}

Json Writing::prompt_logprobs_of(std::span<const DrawnToken> scored) const {
  Json all = Json::array({Json()});
  for (const DrawnToken& token : scored) {
    Json entry = Json::object();
    const auto add = [&](TokenId id, float logprob, int rank) {
      entry[std::to_string(id)] = Json{{"logprob", said_logprob(logprob)}, {"rank", rank}, {"decoded_token", bytes_of(id)}};
    };
    add(token.id, token.logprob, token.rank);
    const auto count = std::min(token.top.size(), static_cast<std::size_t>(asked_.prompt_logprobs));
    for (std::size_t i = 0; i < count; ++i) add(token.top[i].first, token.top[i].second, static_cast<int>(i) + 1);
    all.push_back(std::move(entry));
  }
  return all;
}

Json Writing::logprob_entry(const DrawnToken& token) const {
  const auto entry = [&](TokenId id, float logprob) {
    const std::string bytes = bytes_of(id);
    Json numbers = Json::array();
    for (const char byte : bytes) numbers.push_back(static_cast<std::int64_t>(static_cast<unsigned char>(byte)));
    Json json = Json::object();
    json["token"] = bytes;
    json["logprob"] = said_logprob(logprob);
    json["bytes"] = std::move(numbers);
    return json;
  };
  Json json = entry(token.id, token.logprob);
  Json top = Json::array();
  for (const auto& [id, logprob] : token.top) top.push_back(entry(id, logprob));
  json["top_logprobs"] = std::move(top);
  return json;
}

}  // namespace bantam::server
