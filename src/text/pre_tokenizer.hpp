// Cuts a normalized text into pre-tokens, which merges never cross.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.hpp"
#include "text/spec.hpp"

namespace bantam::inline v0 {

/// A text and the parts of it that are pre-tokens, in order.
struct PreTokens {
  std::string text;
  std::vector<Span> spans;
};

/// The steps of a specification, ready to run. Immutable.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  PreTokenizer(const std::vector<PreTokenizerStep>& steps, std::string_view place);

  [[nodiscard]] bool empty() const noexcept { return steps_.empty(); }
  /// Cuts `text`; `first` says that it begins the caller's text. Invalid bytes become pre-tokens of their own.
  [[nodiscard]] PreTokens cut(std::string text, bool first, const Deadline& deadline) const;

  /// The same in parts, for who knows what becomes of some: begun() takes the steps up to the last that changes the text. What each
  /// later one makes of a part depends on that part's text alone. For one thread, and no longer than `deadline`, which must stay.
  class Cutting {
   public:
    Cutting(const PreTokenizer& steps, const Deadline& deadline);
    [[nodiscard]] PreTokens begun(std::string text, bool first);
    /// The steps that begun() leaves over: from this one to before end().
    [[nodiscard]] std::size_t first() const noexcept { return steps_.first_split_; }
    [[nodiscard]] std::size_t end() const noexcept { return steps_.steps_.size(); }
    /// What a step cuts `text` into. Valid until the same step cuts again.
    [[nodiscard]] const std::vector<Span>& split(std::size_t step, std::string_view text);

   private:
    void split_all(std::size_t step, PreTokens& tokens);
    friend class PreTokenizer;

    const PreTokenizer& steps_;
    const Deadline& deadline_;
    std::vector<std::optional<Regex::Matcher>> matchers_;  // made when a step needs its own
    std::vector<std::vector<Span>> spans_;                 // of each step
  };

 private:
  struct Step {
    PreTokenizerStep what;
    std::optional<Regex> regex;
  };
  std::vector<Step> steps_;
  std::size_t first_split_ = 0;  // from here on nothing changes the text
};

}  // namespace bantam::inline v0
