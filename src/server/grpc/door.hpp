// gRPC in front of the endpoints that HTTP has: each call is a request, its messages are the JSON of requests and answers. It is a module that is
// loaded when it is asked for, as gRPC's libraries take longer to load than the program; both sides are of the same build.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "server/http.hpp"

namespace bantam::server {

/// The thread of the HTTP server: handlers, checks, and what is told of clients that go away run there, as for its own requests.
struct GrpcThread {
  std::function<void(std::function<void()>)> post;
  std::function<void(std::chrono::milliseconds, std::function<void()>)> after;
};

/// What listens for calls. Limits of size, number and time are HTTP's.
class GrpcDoor {
 public:
  virtual ~GrpcDoor() = default;
  /// "127.0.0.1:50051"
  [[nodiscard]] virtual std::string address() const = 0;
  /// Takes calls from now on, which were answered with UNAVAILABLE before. `is_well` is what grpc.health.v1 is told, every second.
  virtual void listen(HttpCheck check, HttpHandler handler, std::function<bool()> is_well) = 0;
  /// Answers new calls with UNAVAILABLE. Those that are there have so long; then connections end.
  virtual void close(std::chrono::seconds time) = 0;
  [[nodiscard]] virtual bool is_busy() const = 0;
  /// Ends all calls.
  virtual void stop() = 0;
};

/// What the module is asked for, by this name: binds, so that an address in use shows at once. Throws bantam::Error (io).
using OpenGrpc = GrpcDoor* (*)(const HttpAddress& address, const HttpLimits& limits, GrpcThread thread);
constexpr char open_grpc_name[] = "bantam_open_grpc";

}  // namespace bantam::server
