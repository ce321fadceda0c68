// `bantam serve`: a model behind HTTP.
#include <csignal>

#include "input.hpp"
#include "memory_bound.hpp"
#include "output.hpp"
#include "server/server.hpp"
#include "signals.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

/// FrontOptions::most_logprobs.
constexpr std::int64_t server_logprobs = 100;

struct ServeOptions {
  CommonOptions common;
  LoadingOptions loading;
  std::string model;
  std::string host = "127.0.0.1";
  std::int64_t port = 8080;
  std::string alias;
  std::int64_t parallel = 4, context = 0, queue = -1;
  std::string kv = "f16";
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::int64_t max_tokens = -1;
  std::int64_t max_wait = 60, max_time = 0, drain = 30;
  Sampling sampling;
  std::int64_t top_k = 40;
  std::string seed;
  std::string chat_template, chat_template_file;
  std::string slot_folder;
  std::string key_file, certificate_file;
  bool no_page = false;
  bool slots = false, metrics = false, jinja = false, embeddings = false, reranking = false;  ///< what is always so
  std::string cache_file;
  std::int64_t rate_requests = 0, rate_tokens = 0;
  std::int64_t most_logprobs = server_logprobs;
  bool no_logprobs = false;
  std::string request_log;
  std::int64_t log_keep = 7, log_size = 64;
  bool log_texts = false;
  float breaker = 0, breaker_first_token = 0;
  std::int64_t breaker_window = 30, breaker_rest = 10;
  std::string trace;
  std::int64_t probe = 0;
  std::string probe_file;
};

void check_options(const ServeOptions& o) {
  for (const std::string& key : o.api_keys) {
    if (key.empty()) throw UsageError("--api-key: expected a key, found none");
  }
  if (o.breaker < 0 || o.breaker >= 1) throw UsageError(message("--breaker: expected a share from 0 to below 1, found ", o.breaker));
  if (!o.probe_file.empty() && o.probe == 0) throw UsageError("--probe-file: expected --probe with it");
  if (!(o.breaker_first_token >= 0)) throw UsageError(message("--breaker-first-token: expected 0 or more seconds, found ", o.breaker_first_token));
  at_most_one(!o.chat_template.empty() + !o.chat_template_file.empty(), "--chat-template, --chat-template-file");
  try {
    const Sampler sampler(o.sampling, 1);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

#ifdef BANTAM_HAS_SERVER

/// What clients call a model that has no alias: its file without folder and ending.
std::string name_of_model(const std::string& path) {
  std::filesystem::path name = std::filesystem::path(path).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  const std::string ending = name.extension().string();
  const std::string plain = ending == ".gguf" || ending == ".bantam" ? name.stem().string() : name.filename().string();
  return plain.empty() || plain == "." ? "model" : plain;
}

/// One key a line.
void read_keys(ServeOptions& o) {
  if (o.api_key_file.empty()) return;
  const std::string text = read_input(o.api_key_file);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t last = line.find_last_not_of(" \t\r");
    if (last != std::string::npos) o.api_keys.push_back(line.substr(0, last + 1));
    at = end + 1;
  }
  if (o.api_keys.empty()) fail(Errc::invalid_argument, printable(o.api_key_file, 4096), ": expected a key on a line, found none");
}

server::FrontOptions front_of(const ServeOptions& o) {
  return {.rates = {.requests = o.rate_requests, .tokens = o.rate_tokens},
          .breaker = {.share = o.breaker,
                      .first_token_s = o.breaker_first_token,
                      .window = std::chrono::seconds(o.breaker_window),
                      .rest = std::chrono::seconds(o.breaker_rest)},
          .log = {.path = o.request_log,
                  .most_bytes = static_cast<std::uint64_t>(o.log_size) << 20,
                  .kept = static_cast<int>(o.log_keep),
                  .has_texts = o.log_texts},
          .probe = {.every = std::chrono::seconds(o.probe), .file = o.probe_file},
          .most_logprobs = o.no_logprobs ? -1 : static_cast<int>(o.most_logprobs),
          .trace_file = o.trace};
}

int serve(ServeOptions o) {
  o.sampling.top_k = static_cast<int>(o.top_k);
  if (!o.seed.empty()) o.sampling.seed = static_cast<std::uint64_t>(parse_integer("--seed", o.seed, {-1}));
  check_options(o);
  read_keys(o);
  apply(o.common);
  const int parallel = static_cast<int>(o.parallel);
  server::ServerOptions options{.address = {.host = o.host, .port = static_cast<int>(o.port), .key_file = o.key_file, .certificate_file = o.certificate_file},
                                .name = o.alias.empty() ? name_of_model(o.model) : o.alias,
                                .api_keys = o.api_keys,
                                .chat_template = o.chat_template_file.empty() ? o.chat_template : read_input(o.chat_template_file),
                                .has_page = !o.no_page,
                                .threads = static_cast<int>(o.common.threads),
                                .scheduler = {.parallel = parallel, .queue = static_cast<int>(o.queue), .context = o.context, .kv = o.kv},
                                .sampling = o.sampling,
                                .has_seed = !o.seed.empty() && o.seed != "-1",
                                .cache_file = o.cache_file,
                                .slot_folder = o.slot_folder,
                                .max_tokens = o.max_tokens,
                                .most_waiting = std::chrono::seconds(o.max_wait),
                                .most_time = std::chrono::seconds(o.max_time),
                                .drain_time = std::chrono::seconds(o.drain),
                                .front = front_of(o)};
  // Before the model is read: an address in use shows at once.
  server::Server server(options);
  // As many ended texts are kept as run.
  auto [model, adapters, text] = load_adapted(o.model, o.loading, {.context = o.context, .kv = o.kv, .sequences = 2 * o.parallel, .may_spill = true});
  if (o.context > model.config().context)
    warn(message("a context of ", o.context, " tokens, the model was made for ", model.config().context));
  server.set_context(context_of(model, o.loading, o.context));
  server.set_adapters(std::move(adapters));
  server.set_memory(text);
  const auto ready = [&](std::string_view url) {
    note(message("listening on ", url));
    if (o.common.json) print_json({{"url", url}, {"model", options.name}, {"parallel", o.parallel}});
  };
  const int signal = server.run(model, ready, [](std::string_view line) { note(message("bantam: ", line)); });
  return signal == SIGINT ? 128 + signal : 0;
}

#else

int serve(const ServeOptions& o) {
  check_options(o);
  fail(Errc::unsupported, "serve: this build was made without Boost (Debian: libboost-dev), which the server needs");
}

#endif

}  // namespace

void add_serve(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "serve", "serve a model to clients of OpenAI's API and of llama.cpp's server");
  const auto o = std::make_shared<ServeOptions>();
  constexpr std::int64_t most_int = std::numeric_limits<std::int32_t>::max();
  add_argument(verb, "MODEL", o->model, "Hugging Face folder, .gguf or .bantam file");
  add_text(verb, "--host", o->host, "ADDRESS", "the address to listen on; 0.0.0.0: all of this machine's; a path that ends with .sock: a Unix socket");
  add_text(verb, "--ssl-key-file", o->key_file, "FILE", "the key of TLS in PEM, with --ssl-cert-file");
  add_text(verb, "--ssl-cert-file", o->certificate_file, "FILE", "its certificate, or a chain of them, in PEM");
  add_integer(verb, "--port", o->port, {0, 65535}, "0: any that is free");
  add_text(verb, "--alias", o->alias, "NAME", "what clients call the model [its file's name]");
  add_integer(verb, "--parallel", o->parallel, {1, 1024}, "texts that are generated at once");
  add_integer(verb, "--queue", o->queue, {-1, 1 << 20},
              "requests that may wait beside those; others get 429; -1: four for each of --parallel");
  add_integer(verb, "--context", o->context, {0, std::int64_t{1} << 31},
              "most tokens of each text; 0: what the model was made for, with --memory 8192 of them at most");
  add_kv(verb, o->kv);
  add_texts(verb, "--api-key", o->api_keys, "KEY", "clients must name it, or another of them; may be repeated");
  add_text(verb, "--api-key-file", o->api_key_file, "FILE", "the same, a key a line");
  add_integer(verb, "-n,--max-tokens", o->max_tokens, {-1, most_int},
              "most tokens of requests that do not say it; -1: until the model ends");
  add_integer(verb, "--max-wait", o->max_wait, {0, most_int}, "seconds that a request may wait for its turn; 0: as long as it likes");
  add_integer(verb, "--max-time", o->max_time, {0, most_int}, "seconds that a request may take in all; 0: as long as it likes");
  add_integer(verb, "--drain", o->drain, {0, most_int}, "seconds that requests have to end when a signal ends the server");
  add_number(verb, "--temperature", o->sampling.temperature, "of requests that do not say it, as all below; 0: greedy");
  add_integer(verb, "--top-k", o->top_k, {0, most_int}, "keep the k most probable tokens; 0: all");
  add_number(verb, "--top-p", o->sampling.top_p, "keep the fewest tokens that hold this probability; 1: all");
  add_number(verb, "--min-p", o->sampling.min_p, "drop tokens below this share of the best one's probability; 0: none");
  add_number(verb, "--repeat-penalty", o->sampling.repeat_penalty, "divides the logits of repeated tokens; 1: off");
  add_text(verb, "--seed", o->seed, "N", "of the random numbers; -1: another for each request [-1]");
  add_text(verb, "--chat-template", o->chat_template, "TEXT", "Jinja, in the place of the model's own");
  add_text(verb, "--chat-template-file", o->chat_template_file, "FILE", "the same from a file");
  add_text(verb, "--slot-save-path", o->slot_folder, "FOLDER", "clients may save there what is kept of a text, and restore it");
  add_integer(verb, "--rate-requests", o->rate_requests, {0, most_int}, "most requests a minute of a client, by its key or else its address; others get 429; 0: any number");
  add_integer(verb, "--rate-tokens", o->rate_tokens, {0, most_int}, "the same of tokens, read and generated");
  add_integer(verb, "--max-logprobs", o->most_logprobs, {0, server_logprobs}, "most log probabilities beside a token; fewer than 100: and no logit_bias with them");
  add_flag(verb, "--no-logprobs", o->no_logprobs, "neither log probabilities nor logit_bias: with them a model's head can be read");
  add_text(verb, "--request-log", o->request_log, "FILE", "a line of JSON for each request: who, what, status, tokens, times");
  add_integer(verb, "--log-keep", o->log_keep, {0, 1000}, "older files of it that are kept");
  add_integer(verb, "--log-size", o->log_size, {1, 1 << 20}, "MiB, or a day, after which it begins anew");
  add_flag(verb, "--log-texts", o->log_texts, "with what was asked and answered");
  add_number(verb, "--breaker", o->breaker, "where more than this share of requests fails, others get 503 for a while; 0: never");
  add_number(verb, "--breaker-first-token", o->breaker_first_token, "a first token after so many seconds is a failure; 0: never");
  add_integer(verb, "--breaker-window", o->breaker_window, {1, 3600}, "seconds over which they are counted");
  add_integer(verb, "--breaker-rest", o->breaker_rest, {1, 3600}, "seconds until some are let in again to see");
  add_integer(verb, "--probe", o->probe, {0, most_int}, "every so many seconds a fixed prompt; /health gets 503 where its text or logits are not what they were; 0: never");
  add_text(verb, "--probe-file", o->probe_file, "FILE", "where these wait for the next start; without it those of the first probe are right");
  add_text(verb, "--trace", o->trace, "FILE", "what happened last, for Perfetto, when the server ends; /debug/trace?seconds=N shows it before");
  add_flag(verb, "--no-webui", o->no_page, "without the page at /");
  add_flag(verb, "--jinja", o->jinja, "nothing: templates are always Jinja");
  add_flag(verb, "--metrics", o->metrics, "nothing: /metrics is always there");
  add_flag(verb, "--slots", o->slots, "nothing: /slots is always there");
  add_text(verb, "--cache-file", o->cache_file, "PATH", "where what is kept of texts waits for the next start");
  add_flag(verb, "--embeddings", o->embeddings, "nothing: /v1/embeddings is always there");
  add_flag(verb, "--reranking", o->reranking, "nothing: /v1/rerank is there for models that can");
  add_loading(verb, o->loading);
  add_common(verb, o->common);
  finish_verb(verb,
              "Prints `listening on http://HOST:PORT` on standard error when it is ready; with --json the same as a\n"
              "document on standard output. A browser finds a chat and curves there. SIGTERM and Ctrl-C end it when what is at hand is answered, a second one\n"
              "at once. docs/server.md says what it serves.\n\n"
              "Examples:\n"
              "  bantam serve q4.bantam\n"
              "  bantam serve q4.bantam --port 9000 --parallel 8 --context 8192 --api-key secret\n"
              "  curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}'",
              [=, &action] {
                action = [=] { return serve(*o); };
              });
}

}  // namespace bantam::cli
