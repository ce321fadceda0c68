// JSON from files: parsed under limits, read with messages that name the place.
#include "text/json.hpp"

#include <limits>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

namespace {

/// Real tokenizer files nest 8 deep.
constexpr int deepest = 64;

/// Refuses deep nesting before anything is allocated for it.
void check_depth(std::string_view text, std::string_view place) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest) fail(Errc::corrupt, place, ": json nests deeper than ", deepest, " at byte ", i);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view place) {
  check_depth(text, place);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    fail(Errc::corrupt, place, ": not json, broken at byte ", error.byte, " of ", text.size());
  } catch (const Json::exception&) {
    fail(Errc::corrupt, place, ": json with a number that does not fit");
  }
}

void expect(bool holds, std::string_view place, std::string_view what, const Json& found) {
  if (!holds) fail(Errc::corrupt, place, ": expected ", what, ", found ", found.type_name());
}

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& need(const Json& object, const char* key, std::string_view place) {
  expect(object.is_object(), place, "an object", object);
  const Json* found = member(object, key);
  if (!found) fail(Errc::corrupt, place, ": expected \"", key, "\", found none");
  return *found;
}

const std::string& need_text(const Json& object, const char* key, std::string_view place) {
  const Json& found = need(object, key, place);
  expect(found.is_string(), message(place, ".", key), "a string", found);
  return found.get_ref<const std::string&>();
}

bool flag(const Json& object, const char* key, bool otherwise, std::string_view place) {
  const Json* found = member(object, key);
  if (!found) return otherwise;
  expect(found->is_boolean(), message(place, ".", key), "true or false", *found);
  return found->get<bool>();
}

std::string text_or(const Json& object, const char* key, std::string_view otherwise, std::string_view place) {
  const Json* found = member(object, key);
  if (!found) return std::string(otherwise);
  expect(found->is_string(), message(place, ".", key), "a string", *found);
  return found->get<std::string>();
}

std::int32_t token_id(const Json& value, std::string_view place) {
  constexpr auto most = std::numeric_limits<std::int32_t>::max();
  if (!value.is_number_integer() || (!value.is_number_unsigned() && value.get<std::int64_t>() < 0) ||
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(most)) {
    fail(Errc::corrupt, place, ": expected a token id from 0 to ", most, ", found ",
         value.is_number() ? printable(value.dump()) : std::string(value.type_name()));
  }
  return value.get<std::int32_t>();
}

}  // namespace bantam::inline v0
