// Reading the text of config.json.
#pragma once

#include <filesystem>
#include <string>

namespace bantam::inline v0::detail {

/// A config.json as JSON: what Python writes for numbers that JSON has no words for, NaN, Infinity and -Infinity, as null. State spaces have
/// steps without an upper limit. Throws as read_text_file() does.
[[nodiscard]] std::string read_config_text(const std::filesystem::path& file);

}  // namespace bantam::inline v0::detail
