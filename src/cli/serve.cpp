// `bantam serve`: models behind HTTP.
#include <chrono>
#include <csignal>
#include <map>
#include <mutex>

#include "bantam/model/locate.hpp"
#include "fit.hpp"
#include "input.hpp"
#include "memory_bound.hpp"
#include "output.hpp"
#include "planned.hpp"
#include "sampling_options.hpp"
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
  std::string reasoning = "auto", reasoning_format = "auto", template_kwargs;
  std::int64_t reasoning_budget = -1;
  std::string chat_template, chat_template_file;
  std::string slot_folder;
  std::string key_file, certificate_file;
  bool no_page = false;
  bool no_slots = false, any_name = false;
  bool slots = false, metrics = false, jinja = false, embeddings = false, reranking = false;  ///< what is always so
  std::string cache_file;
  std::int64_t rate_requests = 0, rate_tokens = 0, wrong_keys = 0;
  std::int64_t most_logprobs = server_logprobs;
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

void check_options(const ServeOptions& o) {
  for (const std::string& key : o.api_keys) {
    if (key.empty()) throw UsageError("--api-key: expected a key, found none");
  }
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

server::ChatOptions chat_of(const ServeOptions& o) {
  server::ChatOptions chat{.reasoning_apart = o.reasoning_format != "none", .thinking_budget = o.reasoning_budget};
  if (!o.template_kwargs.empty()) {
    chat.template_kwargs = Json::parse_or_null(o.template_kwargs);
    if (!chat.template_kwargs.is_object()) throw UsageError(message("--chat-template-kwargs: expected a JSON object, found ", printable(o.template_kwargs)));
  }
  // No thoughts are none that take no time, too.
  if (o.reasoning != "auto" || o.reasoning_budget == 0) chat.template_kwargs["enable_thinking"] = o.reasoning == "on" && o.reasoning_budget != 0;
  return chat;
}

server::FrontOptions front_of(const ServeOptions& o) {
  return {.rates = {.requests = o.rate_requests, .tokens = o.rate_tokens},
          .wrong_keys = o.wrong_keys,
          .breaker = {.share = o.breaker,
                      .first_token_s = o.breaker_first_token,
                      .window = std::chrono::seconds(o.breaker_window),
                      .rest = std::chrono::seconds(o.breaker_rest)},
          .log = {.path = o.request_log,
                  .most_bytes = static_cast<std::uint64_t>(o.log_size) << 20,
                  .kept = static_cast<int>(o.log_keep),
                  .has_texts = o.log_texts},
          .probe = {.every = std::chrono::seconds(o.probe), .file = o.probe_file},
          .governor = o.governor.empty() ? std::nullopt : std::optional(server::GovernorPolicy::read(o.governor)),
          .most_logprobs = o.no_logprobs ? -1 : static_cast<int>(o.most_logprobs),
          .trace_file = o.trace};
}

/// The models of a folder: files, and folders that are models or hold one.
std::vector<std::string> models_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::filesystem::path& path = entry->path();
    std::error_code no_entry;
    const bool is_folder = entry->is_directory(no_entry) && !path.filename().string().starts_with('.');
    if (!is_folder && !is_model_file(path)) continue;
    try {
      found.push_back(is_folder ? find_model(path).string() : path.string());
    } catch (const Error&) {
      // A folder of something else.
    }
  }
  if (error) fail(Errc::not_found, printable(folder, 4096), ": expected a folder of models: ", error.message());
  std::ranges::sort(found);
  return found;
}

/// Under its name, an own file for what is kept of its texts.
std::string cache_file_of(const ServeOptions& o, std::string name, bool has_choice) {
  if (o.cache_file.empty() || !has_choice) return o.cache_file;
  std::ranges::replace(name, '/', '_');
  return message(o.cache_file, '.', name);
}

/// The one model that there is, with a smaller one that guesses.
server::LoadedModel load_with_draft(const std::string& path, const std::string& draft, const LoadingOptions& loading, const TextRoom& texts) {
  const std::vector<std::string> paths{path, draft};
  std::vector<AdaptedModel> both = load_together(paths, loading, texts);
  const std::int64_t context = context_of(both[0].model, loading, texts.context);
  const std::int64_t bytes = both[0].model.bytes() + both[1].model.bytes();
  return {.model = std::move(both[0].model),
          .adapters = std::move(both[0].adapters),
          .memory = both[0].text,
          .draft = DraftModel{std::move(both[1].model), both[1].text},
          .context = context,
          .bytes = bytes};
}

/// Plans models for clients. What this machine reads and computes is measured when somebody wants to know it first: texts that run then are slower for
/// that second.
class Planner {
 public:
  Planner(int threads, std::string memory) : threads_(threads), memory_(std::move(memory)) {}
  [[nodiscard]] Json plan(const PlanAsked& asked) {
    const std::lock_guard lock(mutex_);
    Known& known = known_[asked.model];
    // What is free changes; asking on costs nothing for a while.
    constexpr std::chrono::seconds kept{10};
    const auto now = std::chrono::steady_clock::now();
    if (!known.json.is_null() && now < known.made + kept) return known.json;
    Checkpoint checkpoint = open_outline(asked.model);
    machine_.disk = known.disk;
    machine_.product_gb_s = known.product_gb_s;
    machine_ = measured(machine_, threads_, checkpoint);
    machine_.memory_bytes = bound_bytes(memory_);
    known = {.disk = machine_.disk, .product_gb_s = machine_.product_gb_s, .json = to_json(plan_of(asked, machine_, std::move(checkpoint))), .made = now};
    return known.json;
  }

 private:
  struct Known {
    StreamingRate disk = {};
    double product_gb_s = 0;
    Json json = {};
    std::chrono::steady_clock::time_point made = {};
  };
  const int threads_;
  const std::string memory_;
  std::mutex mutex_;
  Machine machine_ = {};
  std::map<std::string, Known> known_;  ///< by model
};

std::vector<server::ServedModel> served_models(const ServeOptions& o, const server::ModelOptions& each, bool has_choice) {
  std::vector<std::string> paths = o.models;
  const auto add = [&](const std::string& path) {
    const bool is_there = std::ranges::any_of(paths, [&](const std::string& other) { return same_file(other, path); });
    if (!is_there) paths.push_back(path);
  };
  if (!o.models_folder.empty()) std::ranges::for_each(models_in(o.models_folder), add);
  if (paths.empty()) fail(Errc::not_found, printable(o.models_folder, 4096), ": expected models, found none");
  std::vector<server::ServedModel> served;
  const std::int64_t base = taken_bytes();
  // As many ended texts are kept as run.
  const TextRoom texts{.context = o.context, .kv = o.kv, .sequences = 2 * o.parallel, .may_spill = true, .drafts = o.mtp > 0};
  const auto planner = std::make_shared<Planner>(each.threads, o.loading.memory);
  for (const std::string& path : paths) {
    server::ModelOptions options = each;
    LoadingOptions loading = o.loading;
    options.name = served.empty() && !o.alias.empty() ? o.alias : name_of_model(path);
    options.cache_file = cache_file_of(o, options.name, has_choice);
    const auto same = std::ranges::find_if(served, [&](const server::ServedModel& other) { return other.options.name == options.name; });
    if (same != served.end())
      throw UsageError(message("MODEL: expected names that differ, found ", printable(options.name), " for ", printable(same->path.string()), " and ", printable(path), "; --alias names the first"));
    // Adapters and numbers of experts are of one model.
    if (!served.empty()) {
      loading.lora.clear();
      loading.experts = 0;
      loading.cold = {};
    }
    // A file that is not there shows at once.
    const std::filesystem::path file = has_choice ? find_model(path) : std::filesystem::path(path);
    options.scheduler.lookup = static_cast<int>(o.lookup);
    options.scheduler.mtp = static_cast<int>(o.mtp);
    const std::string draft = o.draft;
    const auto load = [=](std::int64_t others, const std::function<bool()>& keep_going) -> std::optional<server::LoadedModel> {
      if (!draft.empty()) return load_with_draft(path, draft, loading, texts);
      std::optional<ModelBeside> beside = load_beside(path, loading, texts, others, base, [&](std::int64_t, std::int64_t) { return keep_going(); });
      if (!beside) return std::nullopt;
      auto& [model, adapters, text] = beside->adapted;
      if (texts.context > model.config().context) warn(message("a context of ", texts.context, " tokens, the model was made for ", model.config().context));
      const std::int64_t context = context_of(model, loading, texts.context);
      return server::LoadedModel{.model = std::move(model), .adapters = std::move(adapters), .memory = text, .context = context, .bytes = beside->bytes};
    };
    const PlanAsked asked{.model = path, .name = options.name, .kv = o.kv, .context = o.context};
    served.push_back({.options = options, .path = file, .load = load, .plan = [planner, asked] { return planner->plan(asked); }});
  }
  return served;
}

server::SteeringOptions steering_of(const ServeOptions& o, std::span<const server::ServedModel> models) {
  const auto check = [&](std::string_view option, const std::string& name) {
    const auto found = std::ranges::find_if(models, [&](const server::ServedModel& one) { return one.options.name == name; });
    if (found == models.end()) throw UsageError(message(option, ": expected the name of a model that is served, found ", printable(name)));
    if (found == models.begin()) throw UsageError(message(option, ": expected another model than the first, found ", printable(name)));
  };
  for (const std::string& name : o.ladder) check("--ladder", name);
  if (!o.canary.empty()) check("--canary", o.canary);
  server::SteeringOptions steering{.first = models[0].options.name,
                                   .ladder = {.models = o.ladder,
                                              .first_token_s = o.ladder_latency,
                                              .least_memory = o.ladder_memory.empty() ? 0 : parse_size("--ladder-memory", o.ladder_memory),
                                              .most_celsius = o.ladder_temperature,
                                              .rest = std::chrono::seconds(o.ladder_rest)},
                                   .canary = {.model = o.canary, .share = o.canary_share / 100, .drift = o.canary_drift}};
  if (!o.ladder_sensors.empty()) steering.ladder.sensors = o.ladder_sensors;
  return steering;
}

int serve(ServeOptions o) {
  Sampling sampling = sampling_of(o.sampling);
  if (!o.seed.empty()) sampling.seed = static_cast<std::uint64_t>(parse_integer("--seed", o.seed, {-1}));
  check_options(o);
  read_keys(o);
  apply(o.common);
  const bool has_choice = o.models.size() > 1 || !o.models_folder.empty();
  if (has_choice && (!o.draft.empty() || o.mtp > 0)) throw UsageError("--draft, --mtp: expected one model with them, found several");
  if (has_choice && o.any_name) throw UsageError("--any-name: expected one model with it, found several");
  const server::ModelOptions each{.chat_template = o.chat_template_file.empty() ? o.chat_template : read_input(o.chat_template_file),
                                  .threads = static_cast<int>(o.common.threads),
                                  .scheduler = {.parallel = static_cast<int>(o.parallel), .queue = static_cast<int>(o.queue), .kv = o.kv},
                                  .sampling = sampling,
                                  .has_seed = !o.seed.empty() && o.seed != "-1",
                                  .ignore_end = o.ignore_eos,
                                  .reuse = !o.no_cache_prompt,
                                  .chat = chat_of(o),
                                  .slot_folder = o.slot_folder,
                                  .max_tokens = o.max_tokens,
                                  .most_waiting = std::chrono::seconds(o.max_wait),
                                  .most_time = std::chrono::seconds(o.max_time)};
  std::vector<server::ServedModel> models = served_models(o, each, has_choice);
  // Before a model is read: an address in use shows at once.
  server::Server server({.address = {.host = o.host, .port = static_cast<int>(o.port), .key_file = o.key_file, .certificate_file = o.certificate_file},
                         .grpc_port = static_cast<int>(o.grpc_port),
                         .api_keys = o.api_keys,
                         .has_page = !o.no_page,
                         .has_slots = !o.no_slots,
                         .any_name = o.any_name,
                         .drain_time = std::chrono::seconds(o.drain),
                         .front = front_of(o),
                         .steering = steering_of(o, models),
                         .has_choice = has_choice,
                         .most_loaded = static_cast<int>(o.most_loaded),
                         .loads_on_demand = !o.no_autoload,
                         .keep_alive = std::chrono::seconds(o.keep_alive)});
  std::vector<std::string> names;
  for (const server::ServedModel& one : models) names.push_back(one.options.name);
  const auto ready = [&](std::string_view url, std::string_view grpc) {
    if (!grpc.empty()) note(message("gRPC on ", grpc));
    note(message("listening on ", url));
    if (!o.common.json) return;
    Json json = {{"url", url}, {"model", names[0]}, {"parallel", o.parallel}};
    if (!grpc.empty()) json["grpc"] = grpc;
    if (has_choice) json["models"] = names;
    print_json(json);
  };
  const int signal = server.run(std::move(models), ready, [](std::string_view line) { note(message("bantam: ", line)); });
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
  add_arguments(verb, "MODEL", o->models, "Hugging Face folders, .gguf or .bantam files: of several, requests name the one that they want, which is loaded then");
  add_text(verb, "--models-dir", o->models_folder, "FOLDER", "and every model in it");
  add_integer(verb, "--models-max", o->most_loaded, {0, 1 << 20}, "of several models, so many may be loaded at a time; 0: as many as --memory holds");
  add_flag(verb, "--no-models-autoload", o->no_autoload, "of several models, load those alone that POST /models/load asks for");
  add_integer(verb, "--keep-alive", o->keep_alive, {-1, most_int}, "seconds after which a model that nobody uses is unloaded; -1: when others need its memory");
  add_text(verb, "--host", o->host, "ADDRESS", "the address to listen on; 0.0.0.0: all of this machine's; a path that ends with .sock: a Unix socket");
  add_text(verb, "--ssl-key-file", o->key_file, "FILE", "the key of TLS in PEM, with --ssl-cert-file");
  add_text(verb, "--ssl-cert-file", o->certificate_file, "FILE", "its certificate, or a chain of them, in PEM");
  add_integer(verb, "--port", o->port, {0, 65535}, "0: any that is free");
  add_integer(verb, "--grpc-port", o->grpc_port, {-1, 65535}, "the same over gRPC, at the same address; -1: not");
  add_text(verb, "--alias", o->alias, "NAME", "what clients call the model, the first of several [its file's name]");
  add_flag(verb, "--any-name", o->any_name, "of one model, whatever name requests say; else others than its own get 404");
  add_integer(verb, "--parallel", o->parallel, {1, 1024}, "texts that are generated at once");
  add_integer(verb, "--queue", o->queue, {-1, 1 << 20},
              "requests that may wait beside those; others get 429; -1: four for each of --parallel");
  add_integer(verb, "--context", o->context, {0, std::int64_t{1} << 31},
              "most tokens of each text; 0: what the model was made for, with --memory 8192 of them at most");
  add_kv(verb, o->kv);
  add_integer(verb, "--lookup", o->lookup, {0, 16}, "guess up to this many tokens of each text from what stands in it: faster where it repeats, never other text; 0: off");
  add_integer(verb, "--mtp", o->mtp, {0, 16}, "the same by the layer that the model has for it (multi-token prediction); 0: off");
  add_text(verb, "--draft", o->draft, "MODEL", "the same by a smaller model of the same vocabulary");
  add_texts(verb, "--api-key", o->api_keys, "KEY", "clients must name it, or another of them; may be repeated");
  add_text(verb, "--api-key-file", o->api_key_file, "FILE", "the same, a key a line");
  add_integer(verb, "--max-wait", o->max_wait, {0, most_int}, "seconds that a request may wait for its turn; 0: as long as it likes");
  add_integer(verb, "--max-time", o->max_time, {0, most_int}, "seconds that a request may take in all; 0: as long as it likes");
  add_integer(verb, "--drain", o->drain, {0, most_int}, "seconds that requests have to end when a signal ends the server");
  add_integer(verb, "-n,--max-tokens", o->max_tokens, {-1, most_int},
              "most tokens of requests that do not say it, as all down to --chat-template-kwargs; -1: until the model ends");
  add_sampling(verb, o->sampling);
  add_text(verb, "--seed", o->seed, "N", "of the random numbers; -1: another for each request [-1]");
  add_flag(verb, "--ignore-eos", o->ignore_eos, "go on after the model's end token");
  add_flag(verb, "--no-cache-prompt", o->no_cache_prompt, "read every prompt whole");
  add_choice(verb, "--reasoning", o->reasoning, {"auto", "on", "off"}, "whether models that can think first do: enable_thinking, for templates that read it");
  add_integer(verb, "--reasoning-budget", o->reasoning_budget, {-1, most_int}, "most tokens of thoughts, then their end is written; 0: none; -1: as many as the model likes");
  add_choice(verb, "--reasoning-format", o->reasoning_format, {"auto", "deepseek", "none"}, "none: thoughts are part of the text, with their marks; else they come beside it");
  add_text(verb, "--chat-template-kwargs", o->template_kwargs, "JSON", "an object of what templates read besides messages and tools");
  add_text(verb, "--chat-template", o->chat_template, "TEXT", "Jinja, in the place of the model's own");
  add_text(verb, "--chat-template-file", o->chat_template_file, "FILE", "the same from a file");
  add_text(verb, "--slot-save-path", o->slot_folder, "FOLDER", "clients may save there what is kept of a text, and restore it");
  add_texts(verb, "--ladder", o->ladder, "NAME", "a smaller one of several models, which takes requests of the first where one of the bounds below is passed; the next one, the next; may be repeated");
  add_number(verb, "--ladder-latency", o->ladder_latency, "seconds to the first token, on average; 0: any");
  add_text(verb, "--ladder-memory", o->ladder_memory, "SIZE", "least memory that is to be left");
  add_number(verb, "--ladder-temperature", o->ladder_temperature, "most degrees Celsius of the processors; 0: any");
  add_text(verb, "--ladder-sensors", o->ladder_sensors, "FOLDER", "where sensors are, as in /sys [/sys]");
  add_integer(verb, "--ladder-rest", o->ladder_rest, {0, most_int}, "seconds without any reason until the model before takes requests again");
  add_text(verb, "--canary", o->canary, "NAME", "one of several models, which takes a share of the first one's conversations, and gives it back if it drifts");
  add_number(verb, "--canary-share", o->canary_share, "percent of them");
  add_number(verb, "--canary-drift", o->canary_drift, "nats a token by which what it writes may be more or less likely to it than the first one's is to that");
  add_integer(verb, "--rate-requests", o->rate_requests, {0, most_int}, "most requests a minute of a client, by its key or else its address; others get 429; 0: any number");
  add_integer(verb, "--rate-tokens", o->rate_tokens, {0, most_int}, "the same of tokens, read and generated");
  add_integer(verb, "--wrong-keys", o->wrong_keys, {0, most_int}, "most wrong keys a minute from an address; then all that come from there get 429 for a while; 0: any number");
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
  add_text(verb, "--governor", o->governor, "POLICY", "fewer threads and texts at once before processors slow down for heat: default, or a file of JSON");
  add_text(verb, "--trace", o->trace, "FILE", "what happened last, for Perfetto, when the server ends; /debug/trace?seconds=N shows it before");
  add_flag(verb, "--no-webui", o->no_page, "without the page at /");
  add_flag(verb, "--jinja", o->jinja, "nothing: templates are always Jinja");
  add_flag(verb, "--metrics", o->metrics, "nothing: /metrics is always there");
  add_flag(verb, "--no-slots", o->no_slots, "without GET /slots");
  add_flag(verb, "--cache-prompt", o->cache_prompt, "nothing: prompts go on from what was kept");
  add_flag(verb, "--slots", o->slots, "nothing: /slots is always there");
  add_text(verb, "--cache-file", o->cache_file, "PATH", "where what is kept of texts waits for the next start; of several models in PATH.NAME");
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
              "  bantam serve qwen3-8b.gguf gemma-4-4b.bantam --memory 24GiB --keep-alive 600\n"
              "  bantam serve q4.bantam --port 9000 --parallel 8 --context 8192 --api-key secret\n"
              "  curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}'",
              [=, &action] {
                action = [=] { return serve(*o); };
              });
}

}  // namespace bantam::cli
