// A server from its beginning to its end.
#include "server/server.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <csignal>

#include "server/endpoints.hpp"
#include "server/systemd.hpp"

namespace bantam::server {

namespace {

/// Whether somebody holds this process by a terminal.
bool terminal_is_there() {
  const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) ::close(terminal);
  return terminal >= 0;
}

/// Asks the first model what the probe asks, and again after a while.
void probe_now(Models& models) {
  Common& common = models.common();
  Probe& probe = common.front.probe();
  if (!probe.is_on()) return;
  // Whether it is there or not: a probe is no reason to load it.
  const std::shared_ptr<App> app = models.state("").app;
  if (app && !app->engine.model().config().has_head) fail(Errc::unsupported, "probe: expected a model that writes texts, found one that makes embeddings");
  const auto answer = std::make_shared<Probe::Answer>();
  const auto judge = [&models, &probe, answer, app] {
    // What a model wrote that was replaced meanwhile says nothing of the new one.
    if (models.state("").app == app) probe.judge(*answer, {.model = app->options.name, .kv = app->options.scheduler.kv});
  };
  if (!app) probe.skip();
  try {
    const auto id = !app ? std::nullopt : app->scheduler.submit(Probe::request(app->tokenizer(), app->scheduler.context()), [&common, answer, judge](const TextUpdate& update) {
      answer->add(update);
      if (update.end != TextEnd::running) common.http.post(judge);
    });
    if (app && !id) probe.skip();
  } catch (const Error& error) {
    answer->fail(error.what());
    judge();
  }
  common.http.after(probe.every(), [&models] {
    if (!models.common().draining) probe_now(models);
  });
}

/// Threads for what takes longer than passing on: parsing, templates, tokens, grammars.
constexpr std::size_t handler_threads = 2;

}  // namespace

Server::Server(ServerOptions options)
    : options_(std::move(options)), http_(std::make_unique<HttpServer>(options_.address, options_.limits)) {
  if (options_.grpc_port < 0) return;
  HttpAddress address = options_.address;
  address.port = options_.grpc_port;
  grpc_ = open_grpc(address, options_.limits, *http_);
}
Server::~Server() = default;

int Server::run(std::vector<ServedModel> served, const std::function<void(std::string_view, std::string_view)>& ready,
                const std::function<void(std::string_view)>& note) {
  front_ = std::make_unique<Front>(options_.front, note);
  common_ = std::make_unique<Common>(options_, *http_, *front_, note);
  Front& front = *front_;
  Common& common = *common_;
  // Long readings take turns among themselves, so that others find a thread that answers.
  boost::asio::thread_pool handlers(handler_threads), readers(1);
  const auto models = std::make_shared<Models>(common, std::move(served), note);
  models->start();
  int signal = 0;
  bool hurries = false;
  const auto check = [&](const HttpRequest& request, HttpHeaders& more) {
    const std::string client = client_of(options_, request);
    const auto now = std::chrono::steady_clock::now();
    const Endpoint* endpoint = find_endpoint(request);
    const bool wants_key = endpoint != nullptr && endpoint->kind != Endpoint::Kind::open && !options_.api_keys.empty();
    std::optional<HttpReply> refused = wants_key ? front.refuse_guesser(request, now) : std::nullopt;
    if (!refused) {
      refused = check_request(options_, request);
      if (refused && refused->status == 401) front.guessed(request, now);
    }
    if (!refused) refused = front.admit(request, client, generates(*endpoint), more, now);
    if (refused) {
      common.answers.add(refused->status);
      front.refused(request, client, refused->status);
    }
    return refused;
  };
  const Later later = [&](Endpoint::Kind kind, std::function<void()> f) {
    const bool is_long = kind == Endpoint::Kind::reads || kind == Endpoint::Kind::looks;
    boost::asio::post(is_long ? readers : handlers, std::move(f));
  };
  const auto handle = [&](std::shared_ptr<Exchange> from) {
    const Endpoint& endpoint = *find_endpoint(from->request());
    std::string client = client_of(options_, from->request());
    std::shared_ptr<Exchange> exchange = front.follow(std::move(from), std::move(client), generates(endpoint));
    // Finding the model reads the body, where there is a choice.
    boost::asio::post(handlers, [&, exchange = std::move(exchange), endpoint = &endpoint] { serve_request(*models, *endpoint, exchange, later); });
  };
  const auto drain = [&](int number) {
    // Whoever asks twice does not wait.
    hurries = signal != 0;
    if (hurries) return http_->stop();
    signal = number;
    common.draining = true;
    tell_manager("STOPPING=1");
    models->close();
    http_->close();
    constexpr std::chrono::seconds farewell{2};
    if (grpc_) grpc_->close(options_.drain_time + farewell);
    note(message("draining: ", models->requests(), " requests are at hand"));
    const auto deadline = std::chrono::steady_clock::now() + options_.drain_time;
    const auto look = [&models = *models, this, deadline, farewell](const auto& again) -> void {
      const bool late = std::chrono::steady_clock::now() > deadline;
      if (models.requests() == 0 && !http_->is_busy() && !(grpc_ && grpc_->is_busy())) return http_->stop();
      // Who is not done by then is told so, and has a while to hear it.
      if (late) models.cancel_all();
      if (std::chrono::steady_clock::now() > deadline + farewell) return http_->stop();
      constexpr std::chrono::milliseconds pause{20};
      http_->after(pause, [again] { again(again); });
    };
    look(look);
  };
  const bool has_terminal = terminal_is_there();
  http_->on_signals({SIGINT, SIGTERM, SIGHUP}, [&](int number) {
    // A terminal that was closed wants its programs to end; all else that sends it wants files read anew.
    if (number != SIGHUP || (has_terminal && !terminal_is_there())) return drain(number);
    boost::asio::post(handlers, [&] {
      try {
        if (models->reload().empty()) note("SIGHUP: no file of a model that is loaded changed");
      } catch (const std::exception& error) {
        note(message("SIGHUP: ", error.what()));
      }
    });
  });
  const auto refuse = [](int status, std::string_view type, std::string_view what, std::string_view path) {
    return ApiError(status, type, std::string(what)).reply(path);
  };
  http_->listen(check, handle, refuse);
  if (grpc_) grpc_->listen(check, handle, [&] { return !common.draining && !front.probe().complaint(); });
  probe_now(*models);
  ready(http_->url(), grpc_ ? grpc_->address() : std::string());
  tell_manager("READY=1");
  http_->run();
  if (grpc_) grpc_->stop();
  handlers.join();
  readers.join();
  models->end(!hurries);
  front.save_trace();
  return signal;
}

}  // namespace bantam::server
