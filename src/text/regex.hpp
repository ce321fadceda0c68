// Regular expressions from files and of our own, run by PCRE2 under limits: an exploding one is an error, never a hang.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace bantam::inline v0 {

/// A half-open range of bytes.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  [[nodiscard]] std::size_t size() const noexcept { return end - begin; }
};

/// How long the thread that made it may compute. Time in which the machine does other things, or sleeps, does not count.
class Deadline {
 public:
  explicit Deadline(std::chrono::nanoseconds budget) noexcept;
  [[nodiscard]] bool passed() const noexcept;

 private:
  std::chrono::steady_clock::time_point earliest_;  ///< cheap to ask, and never later than the other
  std::chrono::nanoseconds thread_time_;
};

/// A compiled expression: immutable, shared between threads. Multi-line anchors, Unicode classes.
class Regex {
 public:
  /// `place` names file and key for messages. Throws corrupt for what is no expression, unsupported for what
  /// other engines read differently than this one.
  [[nodiscard]] static Regex compile(std::string_view pattern, std::string_view place);

  /// Finds matches in one text after the other. Not shared between threads.
  class Matcher {
   public:
    /// Works until `deadline`, which all expressions of one call share (see deadline_for).
    Matcher(const Regex& regex, const Deadline& deadline);
    ~Matcher();
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;
    /// Begins with a new text, which must be valid UTF-8 and stay alive.
    void start(std::string_view text);
    /// The next non-empty match, from left to right; false at the end. Throws corrupt when the expression takes more
    /// steps, memory or time than a linear one would.
    [[nodiscard]] bool next(Span& match);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

/// When matching all of a text with all expressions of a tokenizer must be done.
[[nodiscard]] Deadline deadline_for(std::size_t text_bytes);

}  // namespace bantam::inline v0
