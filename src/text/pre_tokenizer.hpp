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

 private:
  struct Step {
    PreTokenizerStep what;
    std::optional<Regex> regex;
  };
  std::vector<Step> steps_;
};

}  // namespace bantam::inline v0
