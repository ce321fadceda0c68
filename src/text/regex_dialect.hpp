// Regular expressions as Hugging Face's files write them (Oniguruma), respelled for PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace bantam::inline v0 {

/// The same expression in PCRE2's words: \w, \W, \s, \S and \h as Oniguruma reads them, \uHHHH, classes within classes and
/// intersections (&&), \p{Han} as the property Script, which PCRE2 alone takes for Script_Extensions. What is no expression stays
/// as it is, for PCRE2 to refuse. Time linear in the pattern.
[[nodiscard]] std::string respelled_regex(std::string_view pattern);

/// The expression of Hugging Face's pre-tokenizer UnicodeScripts: a letter and what follows in its script, spaces included, the
/// Japanese scripts being one.
[[nodiscard]] std::string unicode_scripts_regex();

}  // namespace bantam::inline v0
