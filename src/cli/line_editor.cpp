// Choosing between edited and plain lines.
#include "line_editor.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "edited_lines.hpp"
#include "output.hpp"

namespace bantam::cli {

LineEditor::LineEditor(std::filesystem::path history) {
  const char* const terminal = std::getenv("TERM");
  const std::string_view kind = terminal == nullptr ? "" : terminal;
  // Without knowing the terminal nothing can be drawn on it.
  if (input_is_terminal() && errors_are_terminal() && !kind.empty() && kind != "dumb") edited_ = make_edited_lines(std::move(history));
}

LineEditor::~LineEditor() = default;

TypedLine LineEditor::read(const std::string& prompt) {
  if (edited_) return edited_->read(prompt);
  if (input_is_terminal()) {
    [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, prompt.data(), prompt.size());
  }
  std::optional<std::string> line = plain_.next();
  if (!line) return {};
  return {TypedLine::Kind::line, *std::move(line), false};
}

}  // namespace bantam::cli
