// Lines typed at a terminal: edited and remembered where libedit was there to build with, else as the terminal gives them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "input.hpp"

namespace bantam::cli {

class EditedLines;

struct TypedLine {
  enum class Kind : std::uint8_t {
    line,
    end,          ///< of the input: Ctrl-D on an empty line
    interrupted,  ///< by a signal; `text` is what was typed until then
  };
  Kind kind = Kind::end;
  std::string text;         ///< without the end of the line
  bool more_pasted = false;  ///< the line is one of several that were pasted, and not the last
};

class LineEditor {
 public:
  /// `history`: the file of lines remembered, made when needed, for its owner alone; empty: none is read or written.
  explicit LineEditor(std::filesystem::path history);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// A line typed after `prompt`, which goes to standard error. Signals come back as TypedLine::Kind::interrupted where lines are edited.
  [[nodiscard]] TypedLine read(const std::string& prompt);

 private:
  std::unique_ptr<EditedLines> edited_;  ///< null: plain lines
  LineReader plain_;
};

}  // namespace bantam::cli
