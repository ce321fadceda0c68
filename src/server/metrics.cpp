// Figures and their names.
#include "server/metrics.hpp"

#include <algorithm>

#include "io/json.hpp"

namespace bantam::server {

namespace {

void write_one(std::string& out, std::string_view name, std::string_view type, std::string_view help, double value,
               std::string_view label = {}) {
  out += message("# HELP ", name, ' ', help, "\n# TYPE ", name, ' ', type, '\n', name,
                 label.empty() ? "" : message('{', label, '}'), ' ', value, '\n');
}

}  // namespace

void Histogram::add(double value) {
  ++counts_[static_cast<std::size_t>(std::ranges::lower_bound(bounds_, value) - bounds_.begin())];
  sum_ += value;
}

void Histogram::write(std::string& out, std::string_view name, std::string_view help, std::string_view label) const {
  out += message("# HELP ", name, ' ', help, "\n# TYPE ", name, " histogram\n");
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i];
    out += message(name, "_bucket{", label, ",le=\"", i < bounds_.size() ? message(bounds_[i]) : "+Inf", "\"} ", total, '\n');
  }
  out += message(name, "_sum{", label, "} ", sum_, '\n', name, "_count{", label, "} ", total, '\n');
}

std::string text_of(const std::vector<Figure>& figures) {
  std::string out;
  std::string_view last;
  for (const Figure& f : figures) {
    if (f.name != last) out += message("# HELP ", f.name, ' ', f.help, "\n# TYPE ", f.name, ' ', f.type, '\n');
    out += message(f.name, f.labels.empty() ? "" : message('{', f.labels, '}'), ' ', f.value, '\n');
    last = f.name;
  }
  return out;
}

void Metrics::answered(int status) {
  const std::lock_guard lock(mutex_);
  ++answers_[status];
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

std::string Metrics::text(const SchedulerStats& s, std::string_view model, std::size_t connections) const {
  std::string out;
  const auto counter = [&](std::string_view name, std::string_view help, auto value, std::string_view label = {}) {
    write_one(out, name, "counter", help, static_cast<double>(value), label);
  };
  const auto gauge = [&](std::string_view name, std::string_view help, auto value, std::string_view label = {}) {
    write_one(out, name, "gauge", help, static_cast<double>(value), label);
  };
  const auto rate = [](std::int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0.0; };
  counter("llamacpp:prompt_tokens_total", "Tokens of prompts that were read.", s.prompt_tokens);
  counter("llamacpp:prompt_seconds_total", "Seconds of steps that read prompts.", s.prompt_seconds);
  counter("llamacpp:tokens_predicted_total", "Tokens that were generated.", s.generated_tokens);
  counter("llamacpp:tokens_predicted_seconds_total", "Seconds of steps that generated alone.", s.generate_seconds);
  counter("llamacpp:n_decode_total", "Steps.", s.steps);
  counter("llamacpp:n_tokens_max", "Most tokens that a text had.", s.most_tokens);
  gauge("llamacpp:n_busy_slots_per_decode", "Texts in a step, on average.", rate(s.stepped_texts, static_cast<double>(s.steps)));
  gauge("llamacpp:prompt_tokens_seconds", "Tokens of prompts a second.", rate(s.prompt_tokens, s.prompt_seconds));
  gauge("llamacpp:predicted_tokens_seconds", "Tokens generated a second.", rate(s.generated_tokens, s.prompt_seconds + s.generate_seconds));
  gauge("llamacpp:requests_processing", "Texts that are generated.", s.running);
  gauge("llamacpp:requests_deferred", "Texts that wait.", s.waiting);
  const std::string label = message("model_name=", Json::quoted(model));
  gauge("vllm:num_requests_running", "Texts that are generated.", s.running, label);
  gauge("vllm:num_requests_waiting", "Texts that wait.", s.waiting, label);
  counter("vllm:prompt_tokens_total", "Tokens of prompts, those included that were there.", s.prompt_tokens + s.reused_tokens, label);
  counter("vllm:generation_tokens_total", "Tokens that were generated.", s.generated_tokens, label);
  counter("vllm:prefix_cache_queries_total", "Tokens of prompts that were looked for.", s.prompt_tokens + s.reused_tokens, label);
  counter("vllm:prefix_cache_hits_total", "Tokens of prompts that were there.", s.reused_tokens, label);
  const std::lock_guard lock(mutex_);
  constexpr std::pair<TextEnd, std::string_view> reasons[] = {{TextEnd::stop, "stop"},
                                                              {TextEnd::length, "length"},
                                                              {TextEnd::cancelled, "abort"},
                                                              {TextEnd::late, "late"},
                                                              {TextEnd::failed, "error"}};
  out += "# HELP vllm:request_success_total Texts that ended, by why.\n# TYPE vllm:request_success_total counter\n";
  for (const auto& [end, reason] : reasons) {
    out += message("vllm:request_success_total{", label, ",finished_reason=\"", reason, "\"} ", ends_[static_cast<std::size_t>(end)], '\n');
  }
  first_token_.write(out, "vllm:time_to_first_token_seconds", "From the request to its first token.", label);
  next_token_.write(out, "vllm:inter_token_latency_seconds", "From a token to the next one.", label);
  whole_.write(out, "vllm:e2e_request_latency_seconds", "From the request to the end of a text.", label);
  waited_.write(out, "vllm:request_queue_time_seconds", "From the request to a place.", label);
  gauge("bantam:requests", "Requests at hand.", s.requests);
  gauge("bantam:places", "Texts that may be generated at once.", s.parallel);
  counter("bantam:requests_rejected_total", "Requests that found the queue full.", s.refused);
  gauge("bantam:kept_texts", "Ended texts that are kept for prompts that begin like them.", s.kept);
  gauge("bantam:kv_bytes", "Keys, values and states; what texts share counts in full.", s.kv_bytes);
  gauge("bantam:connections", "Connections that are open.", connections);
  out += "# HELP bantam:http_responses_total Answers, by status.\n# TYPE bantam:http_responses_total counter\n";
  for (const auto& [status, count] : answers_) out += message("bantam:http_responses_total{code=\"", status, "\"} ", count, '\n');
  return out;
}

}  // namespace bantam::server
