// What `bantam serve` is told.
#pragma once

#include "options.hpp"
#include "sampling_options.hpp"

namespace bantam::cli {

/// server::FrontOptions::most_logprobs.
inline constexpr std::int64_t most_server_logprobs = 100;

struct ServeOptions {
  CommonOptions common;
  LoadingOptions loading;
  std::vector<std::string> models;
  std::string models_folder;
  std::int64_t most_loaded = 4, keep_alive = -1;
  bool no_autoload = false;
  std::string host = "127.0.0.1";
  std::int64_t port = 8080, grpc_port = -1;
  std::string alias;
  std::int64_t parallel = 4, context = 0, queue = -1;
  std::string kv = "f16";
  std::string draft;
  std::int64_t lookup = 0, mtp = 0;
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::int64_t max_tokens = -1;
  std::int64_t max_wait = 60, max_time = 0, drain = 30;
  SamplingOptions sampling;
  std::string seed;
  bool ignore_eos = false, cache_prompt = false, no_cache_prompt = false;
  std::string reasoning = "auto", reasoning_effort, reasoning_format = "auto", template_kwargs;
  std::int64_t reasoning_budget = -1;
  std::string chat_template, chat_template_file;
  std::string pooling, embd_normalize;
  std::string slot_folder;
  std::string key_file, certificate_file;
  bool no_page = false;
  bool no_slots = false, any_name = false;
  bool slots = false, metrics = false, jinja = false, embeddings = false, reranking = false;  ///< what is always so
  std::string cache_file;
  std::int64_t rate_requests = 0, rate_tokens = 0, wrong_keys = 0;
  std::int64_t most_logprobs = most_server_logprobs;
  bool no_logprobs = false;
  std::string request_log;
  std::int64_t log_keep = 7, log_size = 64;
  bool log_texts = false;
  float breaker = 0, breaker_first_token = 0;
  std::int64_t breaker_window = 30, breaker_rest = 10;
  std::string trace;
  std::vector<std::string> ladder;
  float ladder_latency = 0, ladder_temperature = 0;
  std::string ladder_memory, ladder_sensors;
  std::int64_t ladder_rest = 30;
  std::string canary;
  float canary_share = 5, canary_drift = 0.5F;
  std::int64_t probe = 0;
  std::string probe_file;
  std::string governor;
};

/// `options` have to outlive the verb.
void add_serve_options(CLI::App& verb, ServeOptions& options);
/// What of them makes no sense together. Throws UsageError.
void check_serve_options(const ServeOptions& options);

}  // namespace bantam::cli
