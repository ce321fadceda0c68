// Reading requests, and answers to those that make no sense, in the shape of OpenAI's API.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/core/error.hpp"
#include "io/json.hpp"
#include "server/http.hpp"

namespace bantam::server {

/// What a client is told instead of an answer.
class ApiError : public std::runtime_error {
 public:
  /// `type` as OpenAI's API has it, `param` the member of the request at fault.
  ApiError(int status, std::string_view type, const std::string& message, std::string_view param = {}, Json code = nullptr)
      : std::runtime_error(message), status_(status), type_(type), param_(param), code_(std::move(code)) {}

  [[nodiscard]] int status() const noexcept { return status_; }
  /// {"error": {"message", "type", "param", "code"}}; on the paths of Anthropic's API {"type": "error", "error": {"type", "message"}}, of Ollama's {"error"}.
  [[nodiscard]] Json json(std::string_view path) const;
  [[nodiscard]] HttpReply reply(std::string_view path) const;

  /// Members of `error` beside those.
  Json more = nullptr;
  /// Whether asking again in a while may help, as it does after 429.
  bool may_retry = false;

 private:
  int status_;
  std::string type_, param_;
  Json code_;
};

/// A status that nobody gets, as nginx has it.
constexpr int client_gone = 499;
/// Status 400: the request makes no sense.
[[nodiscard]] ApiError bad_request(const std::string& message, std::string_view param = {});
/// Whether a path is of Anthropic's API.
[[nodiscard]] bool is_of_anthropic(std::string_view path) noexcept;
[[noreturn]] void refuse(std::string_view param, std::string_view expected, const Json& found);
/// A line without the folder of a file that it names: where files lie is no client's business.
[[nodiscard]] std::string line_without(std::string line, const std::filesystem::path& path);
/// What an exception of ours means for a client.
[[nodiscard]] ApiError to_api_error(const std::exception& error);

/// The members of a request. Absent and null are the same; what is of another kind, or out of bounds, is refused with its name.
class Fields {
 public:
  explicit Fields(const Json& object, std::string place = {}) : object_(object), place_(std::move(place)) {}

  /// None when it is absent or null.
  [[nodiscard]] const Json* find(std::string_view name) const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view name, std::int64_t least,
                                                    std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  [[nodiscard]] std::optional<double> number(std::string_view name, double least, double most) const;
  [[nodiscard]] bool flag(std::string_view name, bool otherwise) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  /// One text or several.
  [[nodiscard]] std::vector<std::string> texts(std::string_view name) const;
  [[nodiscard]] const Json* object(std::string_view name) const;
  [[nodiscard]] const Json* array(std::string_view name) const;
  /// Refuses members that would change the answer, and are not there yet; values that mean nothing are let through.
  void not_yet(std::initializer_list<std::string_view> names) const;

  [[nodiscard]] std::string name_of(std::string_view name) const { return place_.empty() ? std::string(name) : message(place_, '.', name); }

 private:
  const Json& object_;
  std::string place_;
};

/// The body of a request as a JSON object.
[[nodiscard]] Json parse_body(const HttpRequest& request);

/// A whole number from 0 on that is a token of the vocabulary.
[[nodiscard]] std::int32_t token_of(const Json& value, std::int64_t vocab, std::string_view param);

}  // namespace bantam::server
