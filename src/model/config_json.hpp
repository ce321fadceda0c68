// Members of config.json: numbers, texts and lists, with messages that name the file and the key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.hpp"

namespace bantam::inline v0::detail {

// `place` names the file and the path to the object. All throw corrupt where a member is of another type.

/// Itself; throws where it is no object.
const Json& parse_object(const Json& json, const std::string& place);
/// A member of members, or of lists by number, whose names stand in `key` with dots between; null where there is none.
[[nodiscard]] const Json* find_at(const Json& json, std::string_view key);
/// Nothing where it is absent or null.
[[nodiscard]] std::optional<double> number_at(const Json& json, std::string_view key, const std::string& place);
/// One number a layer, where the model was pruned so; native files alone say it.
[[nodiscard]] std::vector<double> list_at(const Json& json, std::string_view key, const std::string& place);
[[nodiscard]] std::string text_at(const Json& json, std::string_view key, const std::string& place, std::string_view otherwise);
[[nodiscard]] bool flag_at(const Json& json, std::string_view key, const std::string& place, bool otherwise);
/// A list of which layers have something, 1 for those; empty where there is none.
[[nodiscard]] std::vector<bool> layout_at(const Json& json, std::string_view key, const std::string& place, std::int64_t layers);

}  // namespace bantam::inline v0::detail
