// What stands between the quotes of a JSON string.
#pragma once

#include <span>

#include "grammar/rules.hpp"

namespace bantam::inline v0::grammar {

/// One character of a string, however it is escaped.
[[nodiscard]] Expr json_character(Rules& rules);
/// Characters of a set, escaped where JSON must have it so.
[[nodiscard]] Expr json_characters_of(Rules& rules, const CharSet& set);
/// A text, escaped where JSON must have it so.
[[nodiscard]] Expr json_text(Rules& rules, std::string_view text);
/// Strings of `character`s, without quotes, that are none of these.
[[nodiscard]] Expr json_text_but(Rules& rules, std::span<const std::string> texts, Expr character);

/// A regular expression (ECMA 262, without assertions but ^ and $ at its ends, and without references back) over what stands between
/// quotes. Throws unsupported with `place` and the byte for what is not understood.
[[nodiscard]] Expr json_pattern(Rules& rules, std::string_view pattern, std::string_view place);

}  // namespace bantam::inline v0::grammar
