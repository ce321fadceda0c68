// What the options of llama.cpp's programs are called here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/core/team.hpp"

namespace bantam::cli {

struct OurWords {
  std::vector<std::string> words;
  std::vector<std::string> ignored;  ///< options that mean nothing here, as they were spelled
};

/// The command line with our words for those of llama.cpp: -c becomes --context, `-m MODEL` the first argument, and what says how to use a GPU or its
/// buffers is left out. `words` begins with the verb; `takes_value` says of an option of ours whether the next word is its value, which is left as it
/// is, and nothing of one that the verb does not have.
[[nodiscard]] OurWords in_our_words(const std::vector<std::string>& words, FunctionRef<std::optional<bool>(const std::string&)> takes_value);

/// The words that are understood beside a verb's own.
[[nodiscard]] std::vector<std::string_view> spellings_of(std::string_view verb);
/// The same for its help: "-m MODEL, -c (--context), ..." in lines of up to 100 columns; empty for none.
[[nodiscard]] std::string spellings_help(std::string_view verb);

}  // namespace bantam::cli
