// gRPC, where the module for it is there.
#pragma once

#include <memory>

#include "server/grpc/door.hpp"

namespace bantam::server {

/// Listens at an address. Throws bantam::Error: io where it is taken, unsupported where there is no module.
[[nodiscard]] std::unique_ptr<GrpcDoor> open_grpc(const HttpAddress& address, const HttpLimits& limits, HttpServer& http);

}  // namespace bantam::server
