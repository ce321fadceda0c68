// Completions for shells, whose scripts (completions/) ask the program for them.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace bantam::cli {

/// What may stand for the last of `words` of a command line, the program's name left out: a line each, its meaning after a tab.
/// Empty where any text may, or a file.
[[nodiscard]] std::string completions(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace bantam::cli
