// What edits lines, where something does.
#pragma once

#include "line_editor.hpp"

namespace bantam::cli {

class EditedLines {
 public:
  virtual ~EditedLines() = default;
  [[nodiscard]] virtual TypedLine read(const std::string& prompt) = 0;
};

/// Null where the program was built without libedit, or it does not start.
[[nodiscard]] std::unique_ptr<EditedLines> make_edited_lines(std::filesystem::path history);

}  // namespace bantam::cli
