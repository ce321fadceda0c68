// Unicode properties and normal forms that tokenizers need, in linear time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace bantam::inline v0::unicode {

enum class Form : std::uint8_t { nfc, nfd, nfkc, nfkd };

/// `text` in a normal form (UAX #15). Invalid bytes stay as they are and stop what is left of them from combining.
/// O(n log n): long runs of combining marks are sorted, not bubbled.
[[nodiscard]] std::string normalized(std::string_view text, Form form);

/// `text` in lower case, character by character, whatever stands around it. Invalid bytes stay.
[[nodiscard]] std::string lowered(std::string_view text);

/// The text without combining marks: all of them, or non-spacing ones alone. Invalid bytes stay.
enum class Marks : std::uint8_t { all, nonspacing };
[[nodiscard]] std::string without_marks(std::string_view text, Marks marks);

/// BERT's cleaning: control characters and invalid bytes go, white space becomes spaces.
[[nodiscard]] std::string cleaned(std::string_view text);
/// Spaces around each Chinese character, by the blocks that BERT lists.
[[nodiscard]] std::string with_spaced_ideographs(std::string_view text);
/// SentencePiece's "nmt": control characters go, white space, invisible characters and U+2581 become spaces.
[[nodiscard]] std::string nmt_cleaned(std::string_view text);

/// Calls `take` for each extended grapheme cluster (UAX #29), in order. An invalid byte is one.
void over_graphemes(std::string_view text, const std::function<void(std::string_view)>& take);

/// White_Space of the Unicode database.
[[nodiscard]] bool is_space(std::uint32_t code) noexcept;
/// A letter, mark, decimal digit or connector: what \w means to the single_word rule of added tokens.
[[nodiscard]] bool is_word(std::uint32_t code) noexcept;

}  // namespace bantam::inline v0::unicode
