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
#include "serve_options.hpp"
#include "server/server.hpp"
#include "signals.hpp"
#include "stall_watch.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

#ifdef BANTAM_HAS_SERVER

/// What clients call a model that has no alias: its file without folder and ending.
std::string name_of_model(const std::string& path) {
  std::filesystem::path name = std::filesystem::path(path).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  const std::string ending = name.extension().string();
  const std::string plain = ending == ".gguf" || ending == ".bantam" ? name.stem().string() : name.filename().string();
  return plain.empty() || plain == "." ? "model" : plain;
}

/// Those of the command line, and one a line of the file.
void read_keys(ServeOptions& o) {
  o.api_keys = between_commas("--api-key", o.api_keys);
  if (o.api_key_file.empty()) return;
  const std::string text = read_input(o.api_key_file);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t last = line.find_last_not_of(" \t\r");
    if (last != std::string::npos && line[0] != '#') o.api_keys.push_back(line.substr(0, last + 1));
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
  if (!o.reasoning_effort.empty() && o.reasoning_effort != "default") chat.template_kwargs["reasoning_effort"] = o.reasoning_effort;
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
  std::vector<AdaptedModel> both = load_together(paths, loading, texts, false);  // a log is no place for a bar
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
    if (served.empty() && !o.alias.empty()) options.other_names = between_commas("--alias", {&o.alias, 1});
    options.name = options.other_names.empty() ? name_of_model(path) : options.other_names[0];
    options.cache_file = cache_file_of(o, options.name, has_choice);
    const auto same = std::ranges::find_if(served, [&](const server::ServedModel& other) { return other.options.is_called(options.name); });
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
  check_serve_options(o);
  read_keys(o);
  apply(o.common);
  const StallWatch watch;
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
                                  .pooling = o.pooling.empty() || o.pooling == "rank" ? std::nullopt : std::optional(find_pooling(o.pooling)),
                                  .normalize = o.embd_normalize.empty() ? std::nullopt : std::optional(o.embd_normalize == "2"),
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
  check_serve_options(o);
  fail(Errc::unsupported, "serve: this build was made without Boost (Debian: libboost-dev), which the server needs");
}

#endif

}  // namespace

void add_serve(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "serve", "serve a model to clients of OpenAI's API, of Ollama's and of llama.cpp's server");
  const auto o = std::make_shared<ServeOptions>();
  add_serve_options(verb, *o);
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
