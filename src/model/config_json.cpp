// Members of config.json.
#include "model/config_json.hpp"

#include <algorithm>

#include "bantam/core/error.hpp"
#include "model/config_words.hpp"
#include "text/json.hpp"

namespace bantam::inline v0::detail {

const Json& parse_object(const Json& json, const std::string& place) {
  if (!json.is_object()) fail(Errc::corrupt, place, ": expected a JSON object, found ", json.type_name());
  return json;
}

const Json* find_at(const Json& json, std::string_view key) {
  const Json* at = key.empty() ? nullptr : &json;
  while (at != nullptr && !key.empty()) {
    const std::string_view name = key.substr(0, key.find('.'));
    const std::optional<std::size_t> place = at->is_array() ? place_in_list(name) : std::nullopt;
    at = at->is_array() ? (place && *place < at->size() ? &(*at)[*place] : nullptr) : at->find(name);
    key.remove_prefix(std::min(key.size(), name.size() + 1));
  }
  return at;
}

std::optional<double> number_at(const Json& json, std::string_view key, const std::string& place) {
  const Json* it = find_at(json, key);
  if (it != nullptr && it->is_null()) it = nullptr;
  if (it == nullptr) return std::nullopt;
  if (!it->is_number()) fail(Errc::corrupt, place, ": ", key, ": expected a number, found ", printable(it->dump()));
  return it->get<double>();
}

std::vector<double> list_at(const Json& json, std::string_view key, const std::string& place) {
  const Json* it = find_at(json, key);
  if (it == nullptr || !it->is_array()) return {};
  std::vector<double> numbers;
  for (const Json& number : *it) {
    if (!number.is_number()) fail(Errc::corrupt, place, ": ", key, ": expected numbers, found ", printable(number.dump()));
    numbers.push_back(number.get<double>());
  }
  if (numbers.empty()) fail(Errc::corrupt, place, ": ", key, ": expected numbers, found none");
  return numbers;
}

std::string text_at(const Json& json, std::string_view key, const std::string& place, std::string_view otherwise) {
  const Json* it = member(json, key);
  if (it == nullptr) return std::string(otherwise);
  if (!it->is_string()) fail(Errc::corrupt, place, ": ", key, ": expected text, found ", printable(it->dump()));
  return std::string(it->string());
}

bool flag_at(const Json& json, std::string_view key, const std::string& place, bool otherwise) {
  const Json* it = member(json, key);
  if (it == nullptr) return otherwise;
  if (!it->is_boolean()) fail(Errc::corrupt, place, ": ", key, ": expected true or false, found ", printable(it->dump()));
  return it->get<bool>();
}

std::vector<bool> layout_at(const Json& json, std::string_view key, const std::string& place, std::int64_t layers) {
  const Json* list = member(json, key);
  if (list == nullptr || (list->is_array() && list->empty())) return {};
  if (!list->is_array() || static_cast<std::int64_t>(list->size()) != layers) {
    fail(Errc::corrupt, place, ": ", key, ": expected a list of ", layers, " numbers, found ", list->is_array() ? message(list->size()) : std::string(list->type_name()));
  }
  std::vector<bool> layout;
  for (std::int64_t i = 0; i < layers; ++i) {
    const Json& has = (*list)[static_cast<std::size_t>(i)];
    if (has != 0 && has != 1) fail(Errc::corrupt, place, ": ", key, "[", i, "]: expected 0 or 1, found ", printable(has.dump()));
    layout.push_back(has == 1);
  }
  return layout;
}

}  // namespace bantam::inline v0::detail
