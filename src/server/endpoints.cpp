// Which path is whose, and who may come in.
#include "server/endpoints.hpp"

#include <algorithm>
#include <cmath>
#include <charconv>

#include "bantam/core/parallel.hpp"

namespace bantam::server {

namespace {

constexpr Endpoint endpoints[] = {
    {"GET", "/", page, Endpoint::Kind::open},
    {"GET", "/page/", page, Endpoint::Kind::open},
    {"GET", "/health", health, Endpoint::Kind::open},
    {"GET", "/v1/health", health, Endpoint::Kind::open},
    {"GET", "/v1/models", list_models},
    {"GET", "/models", list_models},
    {"GET", "/v1/models/", list_models},
    {"POST", "/models/load", load_model},
    {"POST", "/models/unload", unload_model},
    {"POST", "/models/reload", reload_models},
    {"GET", "/plan", plan, Endpoint::Kind::looks},
    {"GET", "/props", props},
    {"GET", "/slots", slots},
    {"GET", "/metrics", metrics},
    {"GET", "/debug/trace", debug_trace},
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
    {"POST", "/embed", plain_embedding, Endpoint::Kind::reads},
    {"POST", "/v1/rerank", rerank_documents, Endpoint::Kind::reads},
    {"POST", "/rerank", rerank_documents, Endpoint::Kind::reads},
    {"POST", "/reranking", rerank_documents, Endpoint::Kind::reads},
    {"POST", "/v1/classify", classify_texts, Endpoint::Kind::reads},
    {"POST", "/classify", classify_texts, Endpoint::Kind::reads},
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
    {"GET", "/api/version", ollama_version},
    {"GET", "/api/tags", ollama_tags},
    {"POST", "/api/show", ollama_show},
    {"POST", "/api/chat", ollama_chat, Endpoint::Kind::writes},
    {"POST", "/api/generate", ollama_generate, Endpoint::Kind::writes},
    {"POST", "/api/embed", ollama_embed, Endpoint::Kind::reads},
    {"POST", "/api/embeddings", ollama_embeddings, Endpoint::Kind::reads},
    {"GET", "/lora-adapters", list_adapters},
    {"POST", "/lora-adapters", set_adapters},
    {"POST", "/slots/", change_slot, Endpoint::Kind::reads},
};

bool is_at(const Endpoint& endpoint, std::string_view path) {
  return endpoint.path.ends_with('/') && endpoint.path != "/" ? path.starts_with(endpoint.path) && path.size() > endpoint.path.size() : path == endpoint.path;
}

/// Compares in time that says nothing of where texts differ.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0U : 1U;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return difference == 0;
}

/// "5m", "1h30m", "300ms", or seconds; less than none: for ever. As Ollama has it.
std::chrono::seconds keep_alive_of(const Json& value) {
  constexpr std::int64_t longest = std::numeric_limits<std::int32_t>::max();
  double seconds = 0;
  bool is_right = value.is_number();
  if (is_right) seconds = value.get<double>();
  if (value.is_string()) {
    std::string_view text = value.string();
    const bool is_negative = text.starts_with('-');
    if (is_negative) text.remove_prefix(1);
    is_right = !text.empty();
    while (is_right && !text.empty()) {
      double number = 0;
      const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
      is_right = code == std::errc() && number >= 0;
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
      constexpr std::pair<std::string_view, double> units[] = {{"ms", 1e-3}, {"h", 3600}, {"m", 60}, {"s", 1}};
      const auto unit = std::ranges::find_if(units, [&](const auto& u) { return text.starts_with(u.first); });
      is_right = is_right && unit != std::end(units);
      if (!is_right) break;
      seconds += number * unit->second;
      text.remove_prefix(unit->first.size());
    }
    if (is_negative) seconds = -seconds;
  }
  if (!is_right) refuse("keep_alive", "seconds, or a time such as 5m", value);
  return std::chrono::seconds(seconds < 0 ? -1 : static_cast<std::int64_t>(std::min(std::ceil(seconds), static_cast<double>(longest))));
}

/// Which model a request is for: what its query says, or its body.
ModelWanted model_wanted(const HttpRequest& request, const Json& body) {
  ModelWanted wanted;
  wanted.name = request.parameter("model").value_or("");
  const std::string autoload = request.parameter("autoload").value_or("");
  wanted.loads = autoload != "false" && autoload != "0";
  if (const Json* named = body.find("model"); wanted.name.empty() && named != nullptr && named->is_string()) wanted.name = named->string();
  if (const Json* time = body.find("keep_alive"); time != nullptr && !time->is_null()) wanted.keep_alive = keep_alive_of(*time);
  return wanted;
}

/// Does something for a request; what it throws is the answer.
template <class F>
void answer_errors(Common& common, const std::shared_ptr<Exchange>& exchange, F&& f) {
  try {
    f();
  } catch (const std::exception& error) {
    common.answer(*exchange, to_api_error(error));
  }
}

}  // namespace

std::span<const Endpoint> all_endpoints() noexcept { return endpoints; }

const Endpoint* find_endpoint(const HttpRequest& request) {
  const auto found = std::ranges::find_if(
      endpoints, [&](const Endpoint& e) { return e.method == request.method && is_at(e, request.path); });
  return found == std::end(endpoints) ? nullptr : found;
}

std::optional<std::size_t> find_key(const ServerOptions& options, const HttpRequest& request) {
  constexpr std::string_view bearer = "Bearer ";
  const std::string_view authorization = request.authorization;
  const std::string_view given = authorization.starts_with(bearer) ? authorization.substr(bearer.size()) : std::string_view(request.api_key);
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < options.api_keys.size(); ++i) {
    if (same_secret(given, options.api_keys[i])) found = i;
  }
  return found;
}

std::string client_of(const ServerOptions& options, const HttpRequest& request) {
  const auto key = find_key(options, request);
  return key ? message("key ", *key + 1) : network_of(request.peer);
}

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
  if (endpoint->kind != Endpoint::Kind::open && !options.api_keys.empty() && !find_key(options, request))
    return ApiError(401, "authentication_error", "expected a valid API key", {}, "invalid_api_key").reply(request.path);
  return std::nullopt;
}

void serve_request(Models& models, const Endpoint& endpoint, const std::shared_ptr<Exchange>& exchange, const Later& later) {
  answer_errors(models.common(), exchange, [&] {
    if (const auto* serve = std::get_if<ServeWithoutModel>(&endpoint.serve)) {
      if (endpoint.kind != Endpoint::Kind::looks) return (*serve)(models, exchange);
      return later(endpoint.kind, [&models, exchange, serve] { answer_errors(models.common(), exchange, [&] { (*serve)(models, exchange); }); });
    }
    Common& common = models.common();
    const HttpRequest& request = exchange->request();
    ModelWanted wanted;
    if (common.options.has_choice) {
      // What is wrong with a body is for its endpoint to say.
      const Json body = request.body.empty() ? Json() : Json::parse_or_null(request.body);
      wanted = model_wanted(request, body);
      if (endpoint.kind == Endpoint::Kind::writes) common.steering.choose(wanted, models, client_of(common.options, request), body);
    }
    wanted.is_use = request.method == "POST";
    models.use(wanted, exchange, [&endpoint, exchange, later](App& app) {
      if (RequestRecord* record = exchange->record()) record->model = app.options.name;
      later(endpoint.kind, [&app, &endpoint, exchange] {
        answer_errors(app.common, exchange, [&] {
          // A client that goes away ends the cutting of its text into tokens, too. What is handed over asks by itself from then on.
          const auto gone = std::make_shared<std::atomic<bool>>(false);
          exchange->on_gone([gone] { *gone = true; });
          const CancelScope scope([&gone] { return gone->load(); });
          if (endpoint.kind == Endpoint::Kind::writes && !app.engine.model().config().has_head)
            throw ApiError(501, "not_supported_error", "this model makes embeddings, and writes no texts");
          std::get<ServeWithModel>(endpoint.serve)(app, exchange);
        });
      });
    });
  });
}

}  // namespace bantam::server
