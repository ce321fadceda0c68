// Which path is whose, who may come in, and the end.
#include "server/server.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <algorithm>
#include <csignal>
#include <random>

#include "bantam/text/reply.hpp"
#include "server/cache_file.hpp"
#include "server/chat.hpp"

namespace bantam::server {

namespace {

/// What Qwen and others use, for models whose files have no template.
constexpr std::string_view chatml =
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

using Serve = void (*)(App&, const std::shared_ptr<Exchange>&);

struct Endpoint {
  std::string_view method, path;  ///< a path that ends with a slash stands for all below it
  Serve serve;
  enum class Kind : std::uint8_t {
    open,      ///< without a key
    plain,
    writes,    ///< texts, which a model without a head does not
    reads,     ///< texts at length, before it answers
  } kind = Kind::plain;
};

constexpr Endpoint endpoints[] = {
    {"GET", "/", page, Endpoint::Kind::open},
    {"GET", "/page/", page, Endpoint::Kind::open},
    {"GET", "/health", health, Endpoint::Kind::open},
    {"GET", "/v1/health", health, Endpoint::Kind::open},
    {"GET", "/v1/models", list_models},
    {"GET", "/models", list_models},
    {"GET", "/v1/models/", list_models},
    {"GET", "/props", props},
    {"GET", "/slots", slots},
    {"GET", "/metrics", metrics},
    {"POST", "/v1/chat/completions", chat_completions, Endpoint::Kind::writes},
    {"POST", "/chat/completions", chat_completions, Endpoint::Kind::writes},
    {"POST", "/v1/completions", completions, Endpoint::Kind::writes},
    {"POST", "/completions", native_completion, Endpoint::Kind::writes},
    {"POST", "/completion", native_completion, Endpoint::Kind::writes},
    {"POST", "/tokenize", tokenize},
    {"POST", "/detokenize", detokenize},
    {"POST", "/apply-template", apply_template},
    {"POST", "/v1/embeddings", embeddings, Endpoint::Kind::reads},
    {"POST", "/embeddings", embeddings, Endpoint::Kind::reads},
    {"POST", "/embedding", native_embedding, Endpoint::Kind::reads},
    {"POST", "/v1/rerank", rerank_documents, Endpoint::Kind::reads},
    {"POST", "/rerank", rerank_documents, Endpoint::Kind::reads},
    {"POST", "/reranking", rerank_documents, Endpoint::Kind::reads},
    {"POST", "/v1/responses", responses, Endpoint::Kind::writes},
    {"POST", "/responses", responses, Endpoint::Kind::writes},
    {"POST", "/v1/responses/input_tokens", count_response_tokens},
    {"GET", "/v1/responses/", get_response},
    {"DELETE", "/v1/responses/", delete_response},
    {"POST", "/v1/messages", messages, Endpoint::Kind::writes},
    {"POST", "/v1/messages/count_tokens", count_message_tokens},
    {"POST", "/infill", infill, Endpoint::Kind::writes},
    {"POST", "/generate", generate, Endpoint::Kind::writes},
    {"POST", "/generate_stream", generate_stream, Endpoint::Kind::writes},
    {"GET", "/lora-adapters", list_adapters},
    {"POST", "/lora-adapters", set_adapters},
    {"POST", "/slots/", change_slot, Endpoint::Kind::reads},
};

bool is_at(const Endpoint& endpoint, std::string_view path) {
  return endpoint.path.ends_with('/') && endpoint.path != "/" ? path.starts_with(endpoint.path) && path.size() > endpoint.path.size() : path == endpoint.path;
}

const Endpoint* find_endpoint(const HttpRequest& request) {
  const auto found = std::ranges::find_if(
      endpoints, [&](const Endpoint& e) { return e.method == request.method && is_at(e, request.path); });
  return found == std::end(endpoints) ? nullptr : found;
}

/// Compares in time that says nothing of where texts differ.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0U : 1U;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return difference == 0;
}

bool has_key(const ServerOptions& options, const HttpRequest& request) {
  if (options.api_keys.empty()) return true;
  constexpr std::string_view bearer = "Bearer ";
  const std::string_view authorization = request.authorization;
  const std::string_view given =
      authorization.starts_with(bearer) ? authorization.substr(bearer.size()) : std::string_view(request.api_key);
  bool found = false;
  for (const std::string& key : options.api_keys) found |= same_secret(given, key);
  return found;
}

/// What needs no body to be answered: other origins' questions, wrong paths, methods and keys.
std::optional<HttpReply> check_request(const ServerOptions& options, const HttpRequest& request) {
  if (request.method == "OPTIONS") {
    return HttpReply{.status = 204,
                     .type = "",
                     .headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
                                 {"Access-Control-Allow-Headers", "*, Authorization"},
                                 {"Access-Control-Max-Age", "86400"}}};
  }
  std::string allowed;
  for (const Endpoint& endpoint : endpoints) {
    if (is_at(endpoint, request.path) && allowed.find(endpoint.method) == std::string::npos)
      allowed += message(allowed.empty() ? "" : ", ", endpoint.method);
  }
  if (allowed.empty()) return ApiError(404, "not_found_error", message("there is no ", printable(request.path))).reply(request.path);
  const Endpoint* endpoint = find_endpoint(request);
  if (endpoint == nullptr) {
    HttpReply reply =
        ApiError(405, "invalid_request_error",
                 message(printable(request.path), ": expected ", allowed, ", found ", printable(request.method)))
            .reply(request.path);
    reply.headers.emplace_back("Allow", allowed);
    return reply;
  }
  if (endpoint->kind != Endpoint::Kind::open && !has_key(options, request))
    return ApiError(401, "authentication_error", "expected a valid API key", {}, "invalid_api_key").reply(request.path);
  return std::nullopt;
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

App::App(const ServerOptions& o, HttpServer& h, const Model& model)
    : options(o),
      http(h),
      engine(model, {.context = o.scheduler.context, .threads = o.threads}),
      scheduler(engine, o.scheduler),
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
  App app(options_, *http_, model);
  const CacheFile cache(app);
  cache.restore(note);
  if (!app.has_own_template) note("the model has no chat template: chats are written as ChatML");
  // Long readings take turns among themselves, so that others find a thread that answers.
  boost::asio::thread_pool handlers(handler_threads), readers(1);
  int signal = 0;
  bool hurries = false;
  const auto check = [&](const HttpRequest& request) {
    std::optional<HttpReply> refused = check_request(options_, request);
    if (refused) app.metrics.answered(refused->status);
    return refused;
  };
  const auto handle = [&](std::shared_ptr<Exchange> exchange) {
    const Endpoint& endpoint = *find_endpoint(exchange->request());
    boost::asio::post(endpoint.kind == Endpoint::Kind::reads ? readers : handlers, [&app, &endpoint, exchange = std::move(exchange)] {
      try {
        if (endpoint.kind == Endpoint::Kind::writes && !app.engine.model().config().has_head) {
          throw ApiError(501, "not_supported_error", "this model makes embeddings, and writes no texts");
        }
        endpoint.serve(app, exchange);
      } catch (const std::exception& error) {
        app.answer(*exchange, to_api_error(error));
      }
    });
  };
  http_->on_signals({SIGINT, SIGTERM}, [&](int number) {
    // Whoever asks twice does not wait.
    hurries = signal != 0;
    if (hurries) return http_->stop();
    signal = number;
    app.draining = true;
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
  ready(http_->url());
  http_->run();
  handlers.join();
  readers.join();
  if (!hurries) cache.save(note);
  return signal;
}

}  // namespace bantam::server
