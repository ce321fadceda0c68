// Figures and their names.
#include "server/metrics.hpp"

#include <algorithm>

#include "io/json.hpp"

namespace bantam::server {

namespace {

/// Counts of two schedulers, one after the other; all else is the later one's.
SchedulerStats sum_of(const SchedulerStats& before, SchedulerStats now) {
  for (std::int64_t SchedulerStats::* of : {&SchedulerStats::prompt_tokens, &SchedulerStats::reused_tokens, &SchedulerStats::generated_tokens, &SchedulerStats::steps,
                                            &SchedulerStats::stepped_texts, &SchedulerStats::refused, &SchedulerStats::guessed_tokens, &SchedulerStats::right_guesses})
    now.*of += before.*of;
  now.prompt_seconds += before.prompt_seconds;
  now.generate_seconds += before.generate_seconds;
  now.most_tokens = std::max(now.most_tokens, before.most_tokens);
  for (std::int64_t StreamStats::* of : {&StreamStats::streamed_bytes, &StreamStats::expert_hits, &StreamStats::expert_misses}) now.weights.*of += before.weights.*of;
  for (double StreamStats::* of : {&StreamStats::read_seconds, &StreamStats::waited_seconds}) now.weights.*of += before.weights.*of;
  return now;
}

}  // namespace

std::string& Exposition::lines_of(std::string_view name, std::string_view type, std::string_view help) {
  const auto [found, is_new] = by_name_.try_emplace(std::string(name), families_.size());
  if (is_new) families_.push_back(message("# HELP ", name, ' ', help, "\n# TYPE ", name, ' ', type, '\n'));
  return families_[found->second];
}

void Exposition::one(std::string_view name, std::string_view type, std::string_view help, double value, std::string_view labels) {
  lines_of(name, type, help) += message(name, labels.empty() ? "" : message('{', labels, '}'), ' ', value, '\n');
}

std::string Exposition::text() const {
  std::string all;
  for (const std::string& family : families_) all += family;
  return all;
}

void Histogram::add(double value) {
  ++counts_[static_cast<std::size_t>(std::ranges::lower_bound(bounds_, value) - bounds_.begin())];
  sum_ += value;
}

void Histogram::write(Exposition& to, std::string_view name, std::string_view help, std::string_view label) const {
  std::string& out = to.lines_of(name, "histogram", help);
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i];
    out += message(name, "_bucket{", label, ",le=\"", i < bounds_.size() ? message(bounds_[i]) : "+Inf", "\"} ", total, '\n');
  }
  out += message(name, "_sum{", label, "} ", sum_, '\n', name, "_count{", label, "} ", total, '\n');
}

void AnswerCounts::add(int status) {
  const std::lock_guard lock(mutex_);
  ++counts_[status];
}

void AnswerCounts::write(Exposition& to) const {
  std::string& out = to.lines_of("bantam:http_responses_total", "counter", "Answers, by status.");
  const std::lock_guard lock(mutex_);
  for (const auto& [status, count] : counts_) out += message("bantam:http_responses_total{code=\"", status, "\"} ", count, '\n');
}

void Metrics::ended(TextEnd end, const TextStats& stats, double seconds) {
  const std::lock_guard lock(mutex_);
  ++ends_[static_cast<std::size_t>(end)];
  whole_.add(seconds);
  waited_.add(1e-3 * stats.waited_ms);
}

void Metrics::first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  first_token_.add(seconds);
}

void Metrics::next_token(double seconds) {
  const std::lock_guard lock(mutex_);
  next_token_.add(seconds);
}

void Metrics::add(const SchedulerStats& stats) {
  const std::lock_guard lock(mutex_);
  before_ = sum_of(before_, stats);
}

void Metrics::write(Exposition& out, const SchedulerStats& now, std::string_view model, bool is_one_of_many) const {
  const std::lock_guard lock(mutex_);
  const SchedulerStats s = sum_of(before_, now);
  const std::string label = message("model_name=", Json::quoted(model)), plain = is_one_of_many ? label : "";
  const auto counter = [&](std::string_view name, std::string_view help, auto value, const std::string& labels) {
    out.counter(name, help, static_cast<double>(value), labels);
  };
  const auto gauge = [&](std::string_view name, std::string_view help, auto value, const std::string& labels) {
    out.gauge(name, help, static_cast<double>(value), labels);
  };
  const auto rate = [](std::int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0.0; };
  counter("llamacpp:prompt_tokens_total", "Tokens of prompts that were read.", s.prompt_tokens, plain);
  counter("llamacpp:prompt_seconds_total", "Seconds of steps that read prompts.", s.prompt_seconds, plain);
  counter("llamacpp:tokens_predicted_total", "Tokens that were generated.", s.generated_tokens, plain);
  counter("llamacpp:tokens_predicted_seconds_total", "Seconds of steps that generated alone.", s.generate_seconds, plain);
  counter("llamacpp:n_decode_total", "Steps.", s.steps, plain);
  counter("llamacpp:n_tokens_max", "Most tokens that a text had.", s.most_tokens, plain);
  gauge("llamacpp:n_busy_slots_per_decode", "Texts in a step, on average.", rate(s.stepped_texts, static_cast<double>(s.steps)), plain);
  gauge("llamacpp:prompt_tokens_seconds", "Tokens of prompts a second.", rate(s.prompt_tokens, s.prompt_seconds), plain);
  gauge("llamacpp:predicted_tokens_seconds", "Tokens generated a second.", rate(s.generated_tokens, s.prompt_seconds + s.generate_seconds), plain);
  gauge("llamacpp:requests_processing", "Texts that are generated.", s.running, plain);
  gauge("llamacpp:requests_deferred", "Texts that wait.", s.waiting, plain);
  gauge("vllm:num_requests_running", "Texts that are generated.", s.running, label);
  gauge("vllm:num_requests_waiting", "Texts that wait.", s.waiting, label);
  counter("vllm:prompt_tokens_total", "Tokens of prompts, those included that were there.", s.prompt_tokens + s.reused_tokens, label);
  counter("vllm:generation_tokens_total", "Tokens that were generated.", s.generated_tokens, label);
  counter("vllm:spec_decode_num_draft_tokens_total", "Tokens that speculation guessed.", s.guessed_tokens, label);
  counter("vllm:spec_decode_num_accepted_tokens_total", "And those of them that came.", s.right_guesses, label);
  counter("vllm:prefix_cache_queries_total", "Tokens of prompts that were looked for.", s.prompt_tokens + s.reused_tokens, label);
  counter("vllm:prefix_cache_hits_total", "Tokens of prompts that were there.", s.reused_tokens, label);
  constexpr std::pair<TextEnd, std::string_view> reasons[] = {{TextEnd::stop, "stop"},
                                                              {TextEnd::length, "length"},
                                                              {TextEnd::cancelled, "abort"},
                                                              {TextEnd::late, "late"},
                                                              {TextEnd::failed, "error"}};
  std::string& ended = out.lines_of("vllm:request_success_total", "counter", "Texts that ended, by why.");
  for (const auto& [end, reason] : reasons) {
    ended += message("vllm:request_success_total{", label, ",finished_reason=\"", reason, "\"} ", ends_[static_cast<std::size_t>(end)], '\n');
  }
  first_token_.write(out, "vllm:time_to_first_token_seconds", "From the request to its first token.", label);
  next_token_.write(out, "vllm:inter_token_latency_seconds", "From a token to the next one.", label);
  whole_.write(out, "vllm:e2e_request_latency_seconds", "From the request to the end of a text.", label);
  waited_.write(out, "vllm:request_queue_time_seconds", "From the request to a place.", label);
  gauge("bantam:requests", "Requests at hand.", s.requests, plain);
  gauge("bantam:places", "Texts that may be generated at once.", s.parallel, plain);
  counter("bantam:requests_rejected_total", "Requests that found the queue full.", s.refused, plain);
  gauge("bantam:kept_texts", "Ended texts that are kept for prompts that begin like them.", s.kept, plain);
  gauge("bantam:kv_bytes", "Keys, values and states; what texts share counts in full.", s.kv_bytes, plain);
  counter("bantam:weights_read_bytes_total", "Bytes of weights that were read from the file.", s.weights.streamed_bytes, plain);
  counter("bantam:weights_waited_seconds_total", "Seconds that passes waited for them.", s.weights.waited_seconds, plain);
  counter("bantam:expert_hits_total", "Experts that were asked for and in memory, once a layer and pass.", s.weights.expert_hits, plain);
  counter("bantam:expert_misses_total", "And those that were read.", s.weights.expert_misses, plain);
}

}  // namespace bantam::server
