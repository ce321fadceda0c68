// The server: models behind the interfaces that clients of OpenAI's API and of llama.cpp's server speak.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/model/pooling.hpp"
#include "bantam/session/scheduler.hpp"
#include "io/json.hpp"
#include "server/front.hpp"
#include "server/grpc.hpp"
#include "server/http.hpp"
#include "server/steering.hpp"

namespace bantam::server {

/// What chats do where their requests say nothing.
struct ChatOptions {
  Json template_kwargs = Json::object();  ///< that templates read
  bool reasoning_apart = true;            ///< thoughts are told apart from text; else they are part of it, with their marks
  std::int64_t thinking_budget = -1;      ///< most tokens of thoughts; -1: as many as the model likes
};

/// How one model is served.
struct ModelOptions {
  std::string name = "model";         ///< what clients call it
  std::vector<std::string> other_names = {};  ///< what they may call it, too
  std::string chat_template = {};     ///< Jinja, in the place of the model's
  int threads = 0;                    ///< 0: the physical cores that the process may use
  SchedulerOptions scheduler = {};
  Sampling sampling = {};             ///< where requests say nothing; the seed, too, if has_seed
  bool has_seed = false;
  bool ignore_end = false;            ///< the same of ignore_eos
  bool reuse = true;                  ///< and of cache_prompt
  ChatOptions chat = {};
  std::string cache_file = {};        ///< where texts that are kept wait for the next start; empty: nowhere
  std::string slot_folder = {};       ///< where clients may save what is kept of a text; empty: nowhere
  std::int64_t max_tokens = -1;       ///< of requests that say nothing; -1: until the model ends or the context is full
  std::optional<Pooling> pooling = {};    ///< of embeddings; none: as the model's files say
  std::optional<bool> normalize = {};     ///< the same of their length
  std::chrono::seconds most_waiting{60};  ///< for a place, and before that for the model; 0: without bound
  std::chrono::seconds most_time{0};      ///< for a whole request; 0: without bound

  /// Ollama's clients say "NAME:latest".
  [[nodiscard]] bool is_called(std::string_view by) const {
    constexpr std::string_view latest = ":latest";
    if (by.ends_with(latest) && by != name) by.remove_suffix(latest.size());
    return by == name || std::ranges::find(other_names, by) != other_names.end();
  }
};

/// What loading a model brings.
struct LoadedModel {
  Model model;
  std::vector<ScaledAdapter> adapters = {};  ///< SchedulerOptions::adapters
  StateMemory memory = {};                   ///< the same of its memory
  std::optional<DraftModel> draft = {};      ///< the same of a model that guesses
  std::int64_t context = 0;                  ///< and its context
  std::int64_t bytes = 0;                    ///< that it and its texts may come to take
};

/// A model that clients may ask for.
struct ServedModel {
  ModelOptions options;
  std::filesystem::path path;  ///< whose change a reload looks for
  /// Loads it beside models that may take so many bytes: nothing unless there is room for all of it beside them. Beside none what does not fit
  /// is read when it is wanted. Ends early where `keep_going` says no. Throws bantam::Error.
  std::function<std::optional<LoadedModel>(std::int64_t others, const std::function<bool()>& keep_going)> load;
  /// Whether it fits and how fast it will be, as `bantam plan --json` says it; null: nobody can say. May take seconds. Throws bantam::Error.
  std::function<Json()> plan = {};
};

struct ServerOptions {
  HttpAddress address{.host = "127.0.0.1", .port = 8080};
  int grpc_port = -1;                      ///< at the same host, in the same way; -1: none
  std::vector<std::string> api_keys = {};  ///< one of them is asked for, where there are any
  bool has_page = true;                    ///< at /
  bool has_slots = true;                   ///< GET /slots
  bool any_name = false;                   ///< of one model, whatever requests call it
  std::chrono::seconds drain_time{30};     ///< for what is at hand when a signal comes
  HttpLimits limits = {};
  FrontOptions front = {};
  SteeringOptions steering = {};
  bool has_choice = false;                 ///< requests name a model, which is loaded when it is wanted; else the first is there from the start
  int most_loaded = 0;                     ///< models at a time; 0: as many as memory holds
  bool loads_on_demand = true;             ///< else when /models/load asks for it
  std::chrono::seconds keep_alive{-1};     ///< a model that nobody wants for so long is unloaded; -1: never
};

struct Common;

class Server {
 public:
  /// Binds the address. Throws bantam::Error (io) where that is taken.
  explicit Server(ServerOptions options);
  ~Server();
  /// Serves until SIGINT or SIGTERM and what was at hand then is answered, and returns the signal; a second one ends the process at once. SIGHUP
  /// loads models whose files changed anew. `ready` is called with the addresses when it listens (that of gRPC is empty where there is none), `note`
  /// with lines for people, from any thread. Throws bantam::Error.
  [[nodiscard]] int run(std::vector<ServedModel> models, const std::function<void(std::string_view url, std::string_view grpc)>& ready,
                        const std::function<void(std::string_view)>& note);

 private:
  ServerOptions options_;
  std::unique_ptr<Front> front_;    // outlives what connections still hold
  std::unique_ptr<Common> common_;  // so does this
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<GrpcDoor> grpc_;  // null: none
};

}  // namespace bantam::server
