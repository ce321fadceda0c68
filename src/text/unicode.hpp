// Unicode properties and normal forms that tokenizers need, in linear time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bantam::inline v0::unicode {

enum class Form : std::uint8_t { nfc, nfd, nfkc, nfkd };

/// `text` in a normal form (UAX #15). Invalid bytes stay as they are and stop what is left of them from combining.
/// O(n log n): long runs of combining marks are sorted, not bubbled.
[[nodiscard]] std::string normalized(std::string_view text, Form form);

/// `text` in lower case, character by character (simple mapping). Invalid bytes stay.
[[nodiscard]] std::string lowered(std::string_view text);

/// White_Space of the Unicode database.
[[nodiscard]] bool is_space(std::uint32_t code) noexcept;
/// A letter, mark, decimal digit or connector: what \w means to the single_word rule of added tokens.
[[nodiscard]] bool is_word(std::uint32_t code) noexcept;

}  // namespace bantam::inline v0::unicode
