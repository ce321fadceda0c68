// Characters as Python's str has them, over UTF-8: every position that a template sees counts code points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bantam::inline v0::jinja {

/// One character at `at`: its code point and bytes. A byte that is no UTF-8 is a character of its own with value -1,
/// so any text can be walked and put together again unchanged.
struct Character {
  std::int32_t value;
  std::size_t size;
};
[[nodiscard]] Character character_at(std::string_view text, std::size_t at) noexcept;

void append_utf8(std::string& out, std::int32_t value);

/// The number of characters, in O(bytes).
[[nodiscard]] std::size_t count_characters(std::string_view text) noexcept;
/// The byte offset of character `index`, or the size if there are fewer.
[[nodiscard]] std::size_t offset_of(std::string_view text, std::size_t index) noexcept;

[[nodiscard]] bool is_space(std::int32_t value) noexcept;      ///< str.isspace
[[nodiscard]] bool is_printable(std::int32_t value) noexcept;  ///< str.isprintable
[[nodiscard]] bool is_word(std::int32_t value) noexcept;       ///< \w of a Python pattern
[[nodiscard]] bool is_alpha(std::int32_t value) noexcept;
[[nodiscard]] bool is_decimal(std::int32_t value) noexcept;
[[nodiscard]] bool is_upper(std::int32_t value) noexcept;  ///< upper or title case
[[nodiscard]] bool is_lower(std::int32_t value) noexcept;

[[nodiscard]] std::string to_upper(std::string_view text);
[[nodiscard]] std::string to_lower(std::string_view text);
/// First character in title case, the rest lower.
[[nodiscard]] std::string capitalize(std::string_view text);
/// str.title: every run of letters capitalized.
[[nodiscard]] std::string title(std::string_view text);
[[nodiscard]] std::string swap_case(std::string_view text);

}  // namespace bantam::inline v0::jinja
