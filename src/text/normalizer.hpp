// Changes a text before it is cut into pre-tokens.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/charsmap.hpp"
#include "text/literals.hpp"
#include "text/regex.hpp"
#include "text/spec.hpp"

namespace bantam::inline v0 {

/// The steps of a specification, ready to run. Immutable.
class Normalizer {
 public:
  Normalizer() = default;
  /// Character maps leave `untouched` as they are (SentencePiece's own symbols).
  Normalizer(const std::vector<NormalizerStep>& steps, std::string_view place, Literals untouched = {});

  [[nodiscard]] bool empty() const noexcept { return steps_.empty(); }
  /// The changed text. An empty text stays empty. Throws corrupt when steps swell it beyond what real ones do.
  [[nodiscard]] std::string apply(std::string_view text, const Deadline& deadline) const;

  /// No text of this length can be given out, nor needs to be: ids and offsets have 31 bits.
  static constexpr std::size_t longest = 0x7fffffff;

 private:
  struct Step {
    NormalizerStep what;
    std::optional<Regex> regex;
    std::shared_ptr<const Charsmap> charsmap;
  };
  [[nodiscard]] std::string mapped(std::string_view text, const Step& step) const;

  std::vector<Step> steps_;
  Literals untouched_;
};

}  // namespace bantam::inline v0
