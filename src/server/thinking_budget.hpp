// An end to thoughts that take too long.
#pragma once

#include <optional>
#include <string>

#include "bantam/session/session.hpp"
#include "bantam/text/tokenizer.hpp"

namespace bantam::server {

/// Lets a reply think for `budget` tokens at most: then it has to write the mark that ends its thoughts, and goes on as it likes. `form` is one
/// of reply_forms(), `prompt` what is replied to: templates may open the thought. None for forms whose thoughts have no such mark.
[[nodiscard]] LogitsProcessor thinking_budget(const Tokenizer& tokenizer, std::string_view form, std::string_view prompt, std::int64_t budget);

}  // namespace bantam::server
