// Reading members of JSON from files, with messages that name the place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/json.hpp"

namespace bantam::inline v0 {

// `place` names the file and the path to the object.

/// Null when the member is absent or null.
[[nodiscard]] const Json* member(const Json& object, std::string_view key);
/// The member; throws corrupt when it is absent.
[[nodiscard]] const Json& need(const Json& object, std::string_view key, std::string_view place);
[[nodiscard]] std::string need_text(const Json& object, std::string_view key, std::string_view place);
/// Absent or null gives `otherwise`; another type throws corrupt.
[[nodiscard]] bool flag(const Json& object, std::string_view key, bool otherwise, std::string_view place);
[[nodiscard]] std::string text_or(const Json& object, std::string_view key, std::string_view otherwise, std::string_view place);
/// A token id: an integer from 0 to 2^31 - 1.
[[nodiscard]] std::int32_t token_id(const Json& value, std::string_view place);
[[nodiscard]] bool is_token_id(const Json& value) noexcept;
/// Throws corrupt when `value` is not of the type that the function `is` of Json asks for.
void expect(bool holds, std::string_view place, std::string_view what, const Json& found);

}  // namespace bantam::inline v0
