// Which path is whose, and who may come in.
#pragma once

#include <functional>
#include <span>
#include <variant>

#include "server/models.hpp"

namespace bantam::server {

using ServeWithModel = void (*)(App&, const std::shared_ptr<Exchange>&);
using ServeWithoutModel = void (*)(Models&, const std::shared_ptr<Exchange>&);

struct Endpoint {
  std::string_view method, path;  ///< a path that ends with a slash stands for all below it
  std::variant<ServeWithModel, ServeWithoutModel> serve;
  enum class Kind : std::uint8_t {
    open,      ///< without a key
    plain,
    writes,    ///< texts, which a model without a head does not
    reads,     ///< texts at length, before it answers
    looks,     ///< at length, and not with the model
  } kind = Kind::plain;
};

[[nodiscard]] std::span<const Endpoint> all_endpoints() noexcept;
/// Null where nothing is at that path by that method.
[[nodiscard]] const Endpoint* find_endpoint(const HttpRequest& request);
/// Which of the keys a request names.
[[nodiscard]] std::optional<std::size_t> find_key(const ServerOptions& options, const HttpRequest& request);
/// Whose limits hold for it: "key 1", or the network that it came from.
[[nodiscard]] std::string client_of(const ServerOptions& options, const HttpRequest& request);
/// Whether it makes the model work.
[[nodiscard]] inline bool generates(const Endpoint& endpoint) noexcept {
  return endpoint.kind == Endpoint::Kind::writes || endpoint.kind == Endpoint::Kind::reads;
}
/// What needs no body to be answered: other origins' questions, wrong paths, methods and keys.
[[nodiscard]] std::optional<HttpReply> check_request(const ServerOptions& options, const HttpRequest& request);
/// Runs something soon on a thread that it may take its time on, and never at once.
using Later = std::function<void(Endpoint::Kind, std::function<void()>)>;
/// Answers a request that came in, when its model is there: whatever is wrong with it becomes an answer, too.
void serve_request(Models& models, const Endpoint& endpoint, const std::shared_ptr<Exchange>& exchange, const Later& later);

}  // namespace bantam::server
