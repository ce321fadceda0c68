// Checks of single members, and their messages.
#include "server/fields.hpp"

#include <cmath>
#include <new>

namespace bantam::server {

namespace {

/// A value as a message shows it.
std::string shown(const Json& value) {
  if (value.is_array() || value.is_object()) return message("an ", value.type_name());
  return printable(value.dump(Json::Style{.replace_invalid = true, .ascii = true}), 60);
}

/// Types of errors have names of Anthropic's own.
std::string_view anthropic_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

bool is_of_anthropic(std::string_view path) noexcept { return path.starts_with("/v1/messages"); }

Json ApiError::json(std::string_view path) const {
  if (is_of_anthropic(path)) {
    Json error = {{"type", anthropic_type(status_)}, {"message", std::string(what())}};
    return {{"type", "error"}, {"error", std::move(error)}};
  }
  if (path.starts_with("/api/")) return {{"error", std::string(what())}};  // Ollama's
  Json error = Json::object();
  error["message"] = std::string(what());
  error["type"] = type_;
  error["param"] = param_.empty() ? Json() : Json(param_);
  error["code"] = code_.is_null() ? Json(status_) : code_;
  for (const auto& [key, value] : more.items()) error[key] = value;
  Json json = Json::object();
  json["error"] = std::move(error);
  return json;
}

HttpReply ApiError::reply(std::string_view path) const {
  HttpReply reply{.status = status_, .body = json(path).dump(Json::Style{.replace_invalid = true})};
  if (status_ == 429 || may_retry) reply.headers.emplace_back("Retry-After", "1");
  if (status_ == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

ApiError bad_request(const std::string& message, std::string_view param) { return {400, "invalid_request_error", message, param}; }

void refuse(std::string_view param, std::string_view expected, const Json& found) {
  throw bad_request(message(param, ": expected ", expected, ", found ", shown(found)), param);
}

std::string line_without(std::string line, const std::filesystem::path& path) {
  const std::string whole = path.string(), name = path.filename().string();
  for (std::size_t at = line.find(whole); !whole.empty() && at != std::string::npos; at = line.find(whole, at + name.size())) line.replace(at, whole.size(), name);
  return line;
}

ApiError to_api_error(const std::exception& error) {
  if (const auto* api = dynamic_cast<const ApiError*>(&error)) return *api;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return {503, "overloaded_error", "out of memory"};
  const auto* ours = dynamic_cast<const Error*>(&error);
  if (ours == nullptr) return {500, "server_error", printable(error.what(), 400)};
  switch (ours->code()) {
    case Errc::invalid_argument:
    case Errc::unsupported:
    case Errc::corrupt: return bad_request(ours->what());
    // What the vocabulary cannot spell is for who asked for it to mend, and no failure of the server's that a breaker should count.
    case Errc::grammar: return bad_request(ours->what(), "grammar");
    // Nobody is there to read it.
    case Errc::cancelled: return {client_gone, "cancelled", ours->what()};
    case Errc::out_of_memory: return {503, "overloaded_error", ours->what()};
    default: return {500, "server_error", ours->what()};
  }
}

const Json* Fields::find(std::string_view name) const {
  const Json* found = object_.find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t least, std::int64_t most) const {
  const Json* found = find(name);
  if (found == nullptr) return std::nullopt;
  // 16.0 is a whole number for many clients.
  double value = 0;
  const bool is_real = found->is_number() && !found->is_number_integer();
  if (is_real) value = found->get<double>();
  constexpr double exact = 9007199254740992.0;
  const bool is_whole = is_real && value == std::floor(value) && std::fabs(value) <= exact;
  std::optional<std::int64_t> number;
  if (is_whole) number = static_cast<std::int64_t>(value);
  if (found->is_number_unsigned() &&
      found->get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    number = found->get<std::int64_t>();
  if (found->is_number_integer() && !found->is_number_unsigned()) number = found->get<std::int64_t>();
  if (number && *number >= least && *number <= most) return number;
  const bool bounded = most != std::numeric_limits<std::int64_t>::max();
  refuse(name_of(name),
         bounded ? message("a whole number from ", least, " to ", most) : message("a whole number of at least ", least),
         *found);
}

std::optional<double> Fields::number(std::string_view name, double least, double most) const {
  const Json* found = find(name);
  if (found == nullptr) return std::nullopt;
  if (found->is_number()) {
    if (const auto value = found->get<double>(); value >= least && value <= most) return value;
  }
  refuse(name_of(name), message("a number from ", least, " to ", most), *found);
}

bool Fields::flag(std::string_view name, bool otherwise) const {
  const Json* found = find(name);
  if (found == nullptr) return otherwise;
  if (!found->is_boolean()) refuse(name_of(name), "true or false", *found);
  return found->get<bool>();
}

std::optional<std::string> Fields::text(std::string_view name) const {
  const Json* found = find(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) refuse(name_of(name), "a text", *found);
  return found->get<std::string>();
}

std::vector<std::string> Fields::texts(std::string_view name) const {
  const Json* found = find(name);
  if (found == nullptr) return {};
  if (found->is_string()) return {found->get<std::string>()};
  if (!found->is_array()) refuse(name_of(name), "a text or an array of them", *found);
  std::vector<std::string> all;
  for (const Json& item : *found) {
    if (!item.is_string()) refuse(name_of(name), "texts", item);
    all.push_back(item.get<std::string>());
  }
  return all;
}

const Json* Fields::object(std::string_view name) const {
  const Json* found = find(name);
  if (found != nullptr && !found->is_object()) refuse(name_of(name), "an object", *found);
  return found;
}

const Json* Fields::array(std::string_view name) const {
  const Json* found = find(name);
  if (found != nullptr && !found->is_array()) refuse(name_of(name), "an array", *found);
  return found;
}

void Fields::not_yet(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    const Json* found = find(name);
    if (found == nullptr) continue;
    const bool means_nothing = (found->is_boolean() && !found->get<bool>()) ||
                               (found->is_number() && found->get<double>() == 0) ||
                               (found->is_string() && found->string().empty()) ||
                               ((found->is_array() || found->is_object()) && found->empty());
    if (!means_nothing) throw bad_request(message(name_of(name), ": not yet"), name_of(name));
  }
}

Json parse_body(const HttpRequest& request) {
  Json body;
  try {
    body = Json::parse(request.body, "request");
  } catch (const Error& error) {
    throw bad_request(error.what());
  }
  if (!body.is_object()) throw bad_request(message("request: expected a JSON object, found ", shown(body)));
  return body;
}

std::int32_t token_of(const Json& value, std::int64_t vocab, std::string_view param) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= static_cast<std::uint64_t>(vocab)) {
    refuse(param, message("a token from 0 to ", vocab - 1), value);
  }
  return value.get<std::int32_t>();
}

}  // namespace bantam::server
