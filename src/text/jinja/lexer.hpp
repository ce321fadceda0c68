// Template text to tokens, with the white space that tags trim already gone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bantam::inline v0::jinja {

enum class TokenKind : std::uint8_t {
  data,            ///< text between tags
  block_begin,     ///< {%
  block_end,       ///< %}
  variable_begin,  ///< {{
  variable_end,    ///< }}
  name,
  string,  ///< unescaped
  integer,
  real,
  symbol,  ///< an operator or bracket; `text` spells it
  end,     ///< of the template
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;
  std::int64_t integer = 0;
  double real = 0;
};

/// Splits a template as Jinja does with trim_blocks and lstrip_blocks on; the last token is `end`.
/// Throws corrupt with place and line.
[[nodiscard]] std::vector<Token> tokenize(std::string_view source, const std::string& place);

}  // namespace bantam::inline v0::jinja
