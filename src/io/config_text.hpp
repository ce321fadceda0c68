// Reading the text of config.json and others beside it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace bantam::inline v0::detail {

/// A config.json as JSON: what Python writes for numbers that JSON has no words for, NaN, Infinity and -Infinity, as null. State spaces have
/// steps without an upper limit. Throws as read_text_file() does; real ones have a few kilobytes.
[[nodiscard]] std::string read_config_text(const std::filesystem::path& file, std::size_t limit_bytes = std::size_t{4} << 20);

}  // namespace bantam::inline v0::detail
