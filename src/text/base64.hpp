// Base64 as files write it (RFC 4648, section 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace bantam::inline v0 {

/// The bytes of a text; padding may be absent. Nothing for another character or a cut group.
[[nodiscard]] std::optional<std::string> bytes_of_base64(std::string_view text);
[[nodiscard]] std::string base64_of(std::string_view bytes);

}  // namespace bantam::inline v0
