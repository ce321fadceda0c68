// A server from its beginning to its end.
#include "server/server.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <algorithm>
#include <csignal>
#include <random>

#include "bantam/text/reply.hpp"
#include "server/cache_file.hpp"
#include "server/chat.hpp"
#include "server/endpoints.hpp"
#include "server/systemd.hpp"

namespace bantam::server {

namespace {

/// What Qwen and others use, for models whose files have no template.
constexpr std::string_view chatml =
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

SchedulerOptions with_trace(SchedulerOptions options, Front& front) {
  options.on_pass = [&trace = front.trace()](const SchedulerPass& pass) { trace.add_step(pass.begin, pass.end, pass.prompt_tokens, pass.texts); };
  return options;
}

/// Asks what the probe asks, and again after a while.
void probe_now(App& app) {
  Probe& probe = app.front.probe();
  if (!probe.is_on()) return;
  if (!app.engine.model().config().has_head) fail(Errc::unsupported, "probe: expected a model that writes texts, found one that makes embeddings");
  const auto answer = std::make_shared<Probe::Answer>();
  const auto judge = [&app, &probe, answer] { probe.judge(*answer, app.options.name, app.options.scheduler.kv); };
  try {
    const auto id = app.scheduler.submit(Probe::request(app.tokenizer(), app.scheduler.context()), [&app, answer, judge](const TextUpdate& update) {
      answer->add(update);
      if (update.end != TextEnd::running) app.http.post(judge);
    });
    if (!id) probe.skip();
  } catch (const Error& error) {
    answer->fail(error.what());
    judge();
  }
  app.http.after(probe.every(), [&app] {
    if (!app.draining) probe_now(app);
  });
}

/// Threads for what takes longer than passing on: parsing, templates, tokens, grammars.
constexpr std::size_t handler_threads = 2;

}  // namespace

std::int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string random_id(std::string_view prefix, std::size_t length) {
  constexpr std::string_view letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  static thread_local std::mt19937_64 random{(std::uint64_t{std::random_device()()} << 32) | std::random_device()()};
  std::string id(prefix);
  for (std::size_t i = 0; i < length; ++i) id += letters[random() % letters.size()];
  return id;
}

App::App(const ServerOptions& o, HttpServer& h, Front& f, const Model& model)
    : options(o),
      http(h),
      front(f),
      engine(model, {.context = o.scheduler.context, .threads = o.threads}),
      scheduler(engine, with_trace(o.scheduler, f)),
      grammars(model.tokenizer()),
      adapters(o.scheduler.adapters),
      template_source(!o.chat_template.empty()                     ? o.chat_template
                      : !model.tokenizer().chat_template().empty() ? model.tokenizer().chat_template()
                                                                   : std::string(chatml)),
      chat_template(template_source),
      has_own_template(template_source != chatml),
      calls_without_text(takes_null_text(chat_template, model.tokenizer())),
      reply_form(reply_form_of(template_source)),
      reply_marks(reply_tokens(model.tokenizer(), reply_form)),
      replays(model.tokenizer(), reply_form),
      started(unix_time()) {}

void App::check_model(const Fields& fields) const {
  const std::string name = fields.text("model").value_or("");
  if (name.empty() || name == options.name || name == "default") return;
  throw ApiError(404, "invalid_request_error",
                 message("the model ", printable(name), " does not exist: expected ", options.name), "model",
                 "model_not_found");
}

void App::answer(Exchange& exchange, HttpReply reply) {
  metrics.answered(reply.status);
  exchange.reply(std::move(reply));
}

void App::answer(Exchange& exchange, const Json& json) {
  answer(exchange, HttpReply{.body = json.dump(Json::Style{.replace_invalid = true})});
}
void App::answer(Exchange& exchange, const ApiError& error) { answer(exchange, error.reply(exchange.request().path)); }

Server::Server(ServerOptions options)
    : options_(std::move(options)),
      http_(std::make_unique<HttpServer>(options_.address, options_.limits)) {}
Server::~Server() = default;

int Server::run(const Model& model, const std::function<void(std::string_view)>& ready, const std::function<void(std::string_view)>& note) {
  front_ = std::make_unique<Front>(options_.front, note);
  Front& front = *front_;
  App app(options_, *http_, front, model);
  const CacheFile cache(app);
  cache.restore(note);
  if (!app.has_own_template) note("the model has no chat template: chats are written as ChatML");
  // Long readings take turns among themselves, so that others find a thread that answers.
  boost::asio::thread_pool handlers(handler_threads), readers(1);
  int signal = 0;
  bool hurries = false;
  const auto check = [&](const HttpRequest& request, HttpHeaders& more) {
    const std::string client = client_of(options_, request);
    std::optional<HttpReply> refused = check_request(options_, request);
    if (!refused) refused = front.admit(request, client, generates(*find_endpoint(request)), more, std::chrono::steady_clock::now());
    if (refused) {
      app.metrics.answered(refused->status);
      front.refused(request, client, refused->status);
    }
    return refused;
  };
  const auto handle = [&](std::shared_ptr<Exchange> from) {
    const Endpoint& endpoint = *find_endpoint(from->request());
    std::string client = client_of(options_, from->request());
    std::shared_ptr<Exchange> exchange = front.follow(std::move(from), std::move(client), generates(endpoint));
    boost::asio::post(endpoint.kind == Endpoint::Kind::reads ? readers : handlers, [&app, &endpoint, exchange = std::move(exchange)] {
      serve_request(app, endpoint, exchange);
    });
  };
  http_->on_signals({SIGINT, SIGTERM}, [&](int number) {
    // Whoever asks twice does not wait.
    hurries = signal != 0;
    if (hurries) return http_->stop();
    signal = number;
    app.draining = true;
    tell_manager("STOPPING=1");
    app.scheduler.close();
    http_->close();
    note(message("draining: ", app.scheduler.stats().requests, " requests are at hand"));
    const auto deadline = std::chrono::steady_clock::now() + options_.drain_time;
    const auto look = [&app, this, deadline](const auto& again) -> void {
      const bool late = std::chrono::steady_clock::now() > deadline;
      if (app.scheduler.stats().requests == 0 && !http_->is_busy()) return http_->stop();
      // Who is not done by then is told so, and has a while to hear it.
      if (late) app.scheduler.cancel_all();
      constexpr std::chrono::seconds farewell{2};
      if (std::chrono::steady_clock::now() > deadline + farewell) return http_->stop();
      constexpr std::chrono::milliseconds pause{20};
      http_->after(pause, [again] { again(again); });
    };
    look(look);
  });
  const auto refuse = [](int status, std::string_view type, std::string_view what, std::string_view path) {
    return ApiError(status, type, std::string(what)).reply(path);
  };
  http_->listen(check, handle, refuse);
  probe_now(app);
  ready(http_->url());
  tell_manager("READY=1");
  http_->run();
  handlers.join();
  readers.join();
  if (!hurries) cache.save(note);
  front.save_trace();
  return signal;
}

}  // namespace bantam::server
