// Calls of gRPC as requests of HTTP: which endpoint each is, its messages as JSON, and back.
#pragma once

#include <string>
#include <string_view>

#include "io/json.hpp"

namespace google::protobuf {
class MethodDescriptor;
}

namespace bantam::server {

/// A call of src/server/grpc/bantam.proto.
class GrpcMethod {
 public:
  /// By its full name, "/bantam.v1.Bantam/Chat"; null for what is none.
  [[nodiscard]] static const GrpcMethod* find(std::string_view name);

  GrpcMethod(std::string_view name, std::string_view method, std::string_view path);
  /// Of the endpoint.
  [[nodiscard]] std::string_view method() const noexcept { return method_; }
  [[nodiscard]] std::string_view path() const noexcept { return path_; }
  /// The body of a request from the bytes of a message. Throws bantam::Error for bytes that are none, and for text that should be JSON and is not.
  [[nodiscard]] std::string body_of(std::string_view message) const;
  /// The bytes of a message from an answer, or an event of one; what has no field is left out.
  [[nodiscard]] std::string message_of(const Json& answer) const;

 private:
  const google::protobuf::MethodDescriptor* descriptor_;
  std::string_view method_, path_;
};

}  // namespace bantam::server
