// Python's text operations that filters and methods share, on UTF-8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/run.hpp"

namespace bantam::inline v0::jinja {

enum class Side : std::uint8_t { left, right, both };
/// Without the characters of `set` at its ends; nullptr: without white space.
[[nodiscard]] std::string_view strip(Run& run, std::string_view text, const std::string* set, Side side);
/// The lines, by every line end that Python knows; with `keep` their ends stay on.
[[nodiscard]] std::vector<std::string_view> split_lines(std::string_view text, bool keep);
/// At most `count` replacements; negative: all.
[[nodiscard]] std::string replace(Run& run, std::string_view text, std::string_view from, std::string_view to, std::int64_t count);
/// Filled up with `fill` to `width` characters; Side says where the text stands.
[[nodiscard]] std::string justify(Run& run, std::string_view text, std::int64_t width, std::string_view fill, Side side);

}  // namespace bantam::inline v0::jinja
