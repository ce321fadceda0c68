// The server: a model behind the interfaces that clients of OpenAI's API and of llama.cpp's server speak.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/session/scheduler.hpp"
#include "server/front.hpp"
#include "server/http.hpp"

namespace bantam::server {

struct ServerOptions {
  HttpAddress address{.host = "127.0.0.1", .port = 8080};
  std::string name = "model";         ///< what clients call the model
  std::vector<std::string> api_keys = {};  ///< one of them is asked for, where there are any
  std::string chat_template = {};     ///< Jinja, in the place of the model's
  bool has_page = true;               ///< at /
  int threads = 0;                    ///< 0: the physical cores that the process may use
  SchedulerOptions scheduler = {};
  Sampling sampling = {};             ///< where requests say nothing; the seed, too, if has_seed
  bool has_seed = false;
  std::string cache_file = {};        ///< where texts that are kept wait for the next start; empty: nowhere
  std::string slot_folder = {};       ///< where clients may save what is kept of a text; empty: nowhere
  std::int64_t max_tokens = -1;       ///< of requests that say nothing; -1: until the model ends or the context is full
  std::chrono::seconds most_waiting{60};  ///< for a place; 0: without bound
  std::chrono::seconds most_time{0};      ///< for a whole request; 0: without bound
  std::chrono::seconds drain_time{30};    ///< for what is at hand when a signal comes
  HttpLimits limits = {};
  FrontOptions front = {};
};

class Server {
 public:
  /// Binds the address. Throws bantam::Error (io) where that is taken.
  explicit Server(ServerOptions options);
  ~Server();
  /// Replaces SchedulerOptions::context, for who knows the model only later.
  void set_context(std::int64_t context) noexcept { options_.scheduler.context = context; }
  /// The same of SchedulerOptions::adapters.
  void set_adapters(std::vector<ScaledAdapter> adapters) noexcept { options_.scheduler.adapters = std::move(adapters); }
  /// The same of SchedulerOptions::memory.
  void set_memory(StateMemory memory) noexcept { options_.scheduler.memory = std::move(memory); }
  /// Serves until SIGINT or SIGTERM and what was at hand then is answered, and returns the signal; a second one ends the process at once.
  /// `ready` is called with the address when it listens, `note` with lines for people. Throws bantam::Error.
  [[nodiscard]] int run(const Model& model, const std::function<void(std::string_view url)>& ready,
                        const std::function<void(std::string_view)>& note);

 private:
  ServerOptions options_;
  std::unique_ptr<Front> front_;  // outlives what connections still hold
  std::unique_ptr<HttpServer> http_;
};

}  // namespace bantam::server
