// Reading members of JSON.
#include "text/json.hpp"

#include <limits>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

void expect(bool holds, std::string_view place, std::string_view what, const Json& found) {
  if (!holds) fail(Errc::corrupt, place, ": expected ", what, ", found ", found.type_name());
}

const Json* member(const Json& object, std::string_view key) {
  const Json* found = object.find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

const Json& need(const Json& object, std::string_view key, std::string_view place) {
  expect(object.is_object(), place, "an object", object);
  const Json* found = member(object, key);
  if (!found) fail(Errc::corrupt, place, ": expected \"", key, "\", found none");
  return *found;
}

std::string need_text(const Json& object, std::string_view key, std::string_view place) {
  const Json& found = need(object, key, place);
  expect(found.is_string(), message(place, ".", key), "a string", found);
  return std::string(found.string());
}

bool flag(const Json& object, std::string_view key, bool otherwise, std::string_view place) {
  const Json* found = member(object, key);
  if (!found) return otherwise;
  expect(found->is_boolean(), message(place, ".", key), "true or false", *found);
  return found->get<bool>();
}

std::string text_or(const Json& object, std::string_view key, std::string_view otherwise, std::string_view place) {
  const Json* found = member(object, key);
  if (!found) return std::string(otherwise);
  expect(found->is_string(), message(place, ".", key), "a string", *found);
  return std::string(found->string());
}

namespace {
constexpr auto most_token_id = std::numeric_limits<std::int32_t>::max();
}

bool is_token_id(const Json& value) noexcept {
  return value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most_token_id);
}

std::int32_t token_id(const Json& value, std::string_view place) {
  if (!is_token_id(value)) {
    fail(Errc::corrupt, place, ": expected a token id from 0 to ", most_token_id, ", found ",
         value.is_number() ? printable(value.dump()) : std::string(value.type_name()));
  }
  return value.get<std::int32_t>();
}

}  // namespace bantam::inline v0
