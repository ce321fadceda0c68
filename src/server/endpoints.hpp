// Which path is whose, and who may come in.
#pragma once

#include <span>

#include "server/app.hpp"

namespace bantam::server {

struct Endpoint {
  std::string_view method, path;  ///< a path that ends with a slash stands for all below it
  void (*serve)(App&, const std::shared_ptr<Exchange>&);
  enum class Kind : std::uint8_t {
    open,      ///< without a key
    plain,
    writes,    ///< texts, which a model without a head does not
    reads,     ///< texts at length, before it answers
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
/// Answers a request that came in: whatever is wrong with it becomes an answer, too.
void serve_request(App& app, const Endpoint& endpoint, const std::shared_ptr<Exchange>& exchange);

}  // namespace bantam::server
