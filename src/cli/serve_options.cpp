// The options of `bantam serve`.
#include "serve_options.hpp"

#include <limits>

#include "bantam/core/message.hpp"

namespace bantam::cli {

void add_serve_options(CLI::App& verb, ServeOptions& o) {
  constexpr std::int64_t most_int = std::numeric_limits<std::int32_t>::max();
  add_arguments(verb, "MODEL", o.models, "Hugging Face folders, .gguf or .bantam files: of several, requests name the one that they want, which is loaded then");
  add_text(verb, "--models-dir", o.models_folder, "FOLDER", "and every model in it");
  add_integer(verb, "--models-max", o.most_loaded, {0, 1 << 20}, "of several models, so many may be loaded at a time; 0: as many as --memory holds");
  add_flag(verb, "--no-models-autoload", o.no_autoload, "of several models, load those alone that POST /models/load asks for");
  add_integer(verb, "--keep-alive", o.keep_alive, {-1, most_int}, "seconds after which a model that nobody uses is unloaded; -1: when others need its memory");
  add_text(verb, "--host", o.host, "ADDRESS", "the address to listen on; 0.0.0.0: all of this machine's; a path that ends with .sock: a Unix socket");
  add_text(verb, "--ssl-key-file", o.key_file, "FILE", "the key of TLS in PEM, with --ssl-cert-file");
  add_text(verb, "--ssl-cert-file", o.certificate_file, "FILE", "its certificate, or a chain of them, in PEM");
  add_integer(verb, "--port", o.port, {0, 65535}, "0: any that is free");
  add_integer(verb, "--grpc-port", o.grpc_port, {-1, 65535}, "the same over gRPC, at the same address; -1: not");
  add_text(verb, "--alias", o.alias, "NAME", "what clients call the model, the first of several [its file's name]; more names behind commas");
  add_flag(verb, "--any-name", o.any_name, "of one model, whatever name requests say; else others than its own get 404");
  add_integer(verb, "--parallel", o.parallel, {1, 1024}, "texts that are generated at once");
  add_integer(verb, "--queue", o.queue, {-1, 1 << 20},
              "requests that may wait beside those; others get 429; -1: four for each of --parallel");
  add_integer(verb, "--context", o.context, {0, std::int64_t{1} << 31},
              "most tokens of each text; 0: what the model was made for, with --memory 8192 of them at most");
  add_kv(verb, o.kv);
  add_integer(verb, "--lookup", o.lookup, {0, 16}, "guess up to this many tokens of each text from what stands in it: faster where it repeats, never other text; 0: off");
  add_integer(verb, "--mtp", o.mtp, {0, 16}, "the same by the layer that the model has for it (multi-token prediction); 0: off");
  add_text(verb, "--draft", o.draft, "MODEL", "the same by a smaller model of the same vocabulary");
  add_texts(verb, "--api-key", o.api_keys, "KEY", "clients must name it, or another of them: several between commas, or given again");
  add_text(verb, "--api-key-file", o.api_key_file, "FILE", "the same, a key a line; # begins a comment");
  add_integer(verb, "--max-wait", o.max_wait, {0, most_int}, "seconds that a request may wait for its turn; 0: as long as it likes");
  add_integer(verb, "--max-time", o.max_time, {0, most_int}, "seconds that a request may take in all; 0: as long as it likes");
  add_integer(verb, "--drain", o.drain, {0, most_int}, "seconds that requests have to end when a signal ends the server");
  add_integer(verb, "-n,--max-tokens", o.max_tokens, {-1, most_int},
              "most tokens of requests that do not say it, as all down to --chat-template-kwargs; -1: until the model ends");
  add_sampling(verb, o.sampling);
  add_text(verb, "--seed", o.seed, "N", "of the random numbers; -1: another for each request [-1]");
  add_flag(verb, "--ignore-eos", o.ignore_eos, "go on after the model's end token");
  add_flag(verb, "--no-cache-prompt", o.no_cache_prompt, "read every prompt whole");
  add_choice(verb, "--reasoning", o.reasoning, {"auto", "on", "off"}, "whether models that can think first do: enable_thinking, for templates that read it");
  add_integer(verb, "--reasoning-budget", o.reasoning_budget, {-1, most_int}, "most tokens of thoughts, then their end is written; 0: none; -1: as many as the model likes");
  add_text(verb, "--reasoning-effort", o.reasoning_effort, "LEVEL", "low, medium, high or what templates have else for how much to think; default: as the template has it [default]");
  add_choice(verb, "--reasoning-format", o.reasoning_format, {"auto", "deepseek", "none"}, "none: thoughts are part of the text, with their marks; else they come beside it");
  add_text(verb, "--chat-template-kwargs", o.template_kwargs, "JSON", "an object of what templates read besides messages and tools");
  add_text(verb, "--chat-template", o.chat_template, "TEXT", "Jinja, in the place of the model's own");
  add_text(verb, "--chat-template-file", o.chat_template_file, "FILE", "the same from a file");
  add_text(verb, "--slot-save-path", o.slot_folder, "FOLDER", "clients may save there what is kept of a text, and restore it");
  add_texts(verb, "--ladder", o.ladder, "NAME", "a smaller one of several models, which takes requests of the first where one of the bounds below is passed; the next one, the next; may be repeated");
  add_number(verb, "--ladder-latency", o.ladder_latency, "seconds to the first token, on average; 0: any");
  add_text(verb, "--ladder-memory", o.ladder_memory, "SIZE", "least memory that is to be left");
  add_number(verb, "--ladder-temperature", o.ladder_temperature, "most degrees Celsius of the processors; 0: any");
  add_text(verb, "--ladder-sensors", o.ladder_sensors, "FOLDER", "where sensors are, as in /sys [/sys]");
  add_integer(verb, "--ladder-rest", o.ladder_rest, {0, most_int}, "seconds without any reason until the model before takes requests again");
  add_text(verb, "--canary", o.canary, "NAME", "one of several models, which takes a share of the first one's conversations, and gives it back if it drifts");
  add_number(verb, "--canary-share", o.canary_share, "percent of them");
  add_number(verb, "--canary-drift", o.canary_drift, "nats a token by which what it writes may be more or less likely to it than the first one's is to that");
  add_integer(verb, "--rate-requests", o.rate_requests, {0, most_int}, "most requests a minute of a client, by its key or else its address; others get 429; 0: any number");
  add_integer(verb, "--rate-tokens", o.rate_tokens, {0, most_int}, "the same of tokens, read and generated");
  add_integer(verb, "--wrong-keys", o.wrong_keys, {0, most_int}, "most wrong keys a minute from an address; then all that come from there get 429 for a while; 0: any number");
  add_integer(verb, "--max-logprobs", o.most_logprobs, {0, most_server_logprobs}, "most log probabilities beside a token; fewer than 100: and no logit_bias with them");
  add_flag(verb, "--no-logprobs", o.no_logprobs, "neither log probabilities nor logit_bias: with them a model's head can be read");
  add_text(verb, "--request-log", o.request_log, "FILE", "a line of JSON for each request: who, what, status, tokens, times");
  add_integer(verb, "--log-keep", o.log_keep, {0, 1000}, "older files of it that are kept");
  add_integer(verb, "--log-size", o.log_size, {1, 1 << 20}, "MiB, or a day, after which it begins anew");
  add_flag(verb, "--log-texts", o.log_texts, "with what was asked and answered");
  add_number(verb, "--breaker", o.breaker, "where more than this share of requests fails, others get 503 for a while; 0: never");
  add_number(verb, "--breaker-first-token", o.breaker_first_token, "a first token after so many seconds is a failure; 0: never");
  add_integer(verb, "--breaker-window", o.breaker_window, {1, 3600}, "seconds over which they are counted");
  add_integer(verb, "--breaker-rest", o.breaker_rest, {1, 3600}, "seconds until some are let in again to see");
  add_integer(verb, "--probe", o.probe, {0, most_int}, "every so many seconds a fixed prompt; /health gets 503 where its text or logits are not what they were; 0: never");
  add_text(verb, "--probe-file", o.probe_file, "FILE", "where these wait for the next start; without it those of the first probe are right");
  add_text(verb, "--governor", o.governor, "POLICY", "fewer threads and texts at once before processors slow down for heat: default, or a file of JSON");
  add_text(verb, "--trace", o.trace, "FILE", "what happened last, for Perfetto, when the server ends; /debug/trace?seconds=N shows it before");
  add_flag(verb, "--no-webui", o.no_page, "without the page at /");
  add_flag(verb, "--jinja", o.jinja, "nothing: templates are always Jinja");
  add_flag(verb, "--metrics", o.metrics, "nothing: /metrics is always there");
  add_flag(verb, "--no-slots", o.no_slots, "without GET /slots");
  add_flag(verb, "--cache-prompt", o.cache_prompt, "nothing: prompts go on from what was kept");
  add_flag(verb, "--slots", o.slots, "nothing: /slots is always there");
  add_text(verb, "--cache-file", o.cache_file, "PATH", "where what is kept of texts waits for the next start; of several models in PATH.NAME");
  add_flag(verb, "--embeddings", o.embeddings, "nothing: /v1/embeddings is always there");
  add_flag(verb, "--reranking", o.reranking, "nothing: /v1/rerank is there for models that can");
  add_open_choice(verb, "--pooling", o.pooling, {"mean", "cls", "last", "rank"}, "of /v1/embeddings: all tokens, the first or the last; as the model's files say, else mean. rank: nothing, for rerankers");
  add_open_choice(verb, "--embd-normalize", o.embd_normalize, {"2", "-1"}, "the same: 2 for vectors of length 1, -1 as the model makes them; as the model's files say, else 2");
  add_loading(verb, o.loading);
  add_common(verb, o.common);
}

void check_serve_options(const ServeOptions& o) {
  if (o.breaker < 0 || o.breaker >= 1) throw UsageError(message("--breaker: expected a share from 0 to below 1, found ", o.breaker));
  if (!o.ladder.empty() && !(o.ladder_latency > 0) && o.ladder_memory.empty() && !(o.ladder_temperature > 0))
    throw UsageError("--ladder: expected --ladder-latency, --ladder-memory or --ladder-temperature with it, found none");
  if (o.ladder_latency < 0 || o.ladder_temperature < 0) throw UsageError("--ladder-latency, --ladder-temperature: expected 0 or more");
  if (!(o.canary_share >= 0 && o.canary_share <= 100)) throw UsageError(message("--canary-share: expected 0 to 100, found ", o.canary_share));
  if (!(o.canary_drift > 0)) throw UsageError(message("--canary-drift: expected more than 0 nats, found ", o.canary_drift));
  if (o.grpc_port >= 0 && o.host.ends_with(".sock")) throw UsageError(message("--grpc-port: expected --host with an address, found ", printable(o.host, 4096)));
  if (!o.probe_file.empty() && o.probe == 0) throw UsageError("--probe-file: expected --probe with it");
  if (!(o.breaker_first_token >= 0)) throw UsageError(message("--breaker-first-token: expected 0 or more seconds, found ", o.breaker_first_token));
  if (o.models.empty() && o.models_folder.empty()) throw UsageError("MODEL: expected a model, or --models-dir, found none");
  at_most_one(!o.chat_template.empty() + !o.chat_template_file.empty(), "--chat-template, --chat-template-file");
}

}  // namespace bantam::cli
