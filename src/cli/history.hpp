// The lines that a chat remembers from one time to the next.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace bantam::cli {

/// Where they are: $XDG_STATE_HOME/bantam/chat_history, by default below ~/.local/state; empty without a home.
[[nodiscard]] std::filesystem::path history_path();

constexpr std::size_t most_remembered = 1000;

/// The last lines of the file, most_remembered at most; none where it cannot be read.
[[nodiscard]] std::vector<std::string> read_history(const std::filesystem::path& file);
/// Adds a line; the file is its owner's alone. What cannot be written is not remembered: no reason to disturb a chat. A file that has
/// become twice as long as it is read is cut.
void remember(const std::filesystem::path& file, std::string_view line);

}  // namespace bantam::cli
