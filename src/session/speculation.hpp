// Guessing the next tokens, so that one pass over the weights may confirm several of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "bantam/text/tokenizer.hpp"

namespace bantam::inline v0 {

/// What followed the latest earlier occurrence of the last tokens.
struct Lookup {
  int matched = 0;                 ///< tokens that agree, at most Lookup::longest; 0: nothing was found
  std::vector<TokenId> following;  ///< as many as asked for; the text since then, round and round where it is shorter
  static constexpr int longest = 4;
};

/// Prompt lookup (Saxena, "Prompt Lookup Decoding", 2023): prefers the longest match, then the latest. Linear in the
/// tokens held.
[[nodiscard]] Lookup look_up(std::span<const TokenId> tokens, int most);

/// How many guesses are worth checking, from what passes cost here and how often guesses were right so far.
class SpeculationPolicy {
 public:
  static constexpr int most = 16;
  /// The kind of guesses that the model's own layer for them makes.
  static constexpr int own_layer = Lookup::longest + 1;

  /// The number of guesses, 0 to `available`, that gives the most tokens a second when each takes `guess_seconds` to
  /// make. `kind` tells sources of guesses apart: 0 is a draft model, own_layer the model itself, others how
  /// many tokens a lookup matched.
  [[nodiscard]] int width(int kind, int available, double guess_seconds) const noexcept;
  /// Seconds of a pass over one token; 0 when none was seen.
  [[nodiscard]] double single_pass() const noexcept { return seconds_[1]; }
  /// Learns from a pass over `tokens` tokens that took so long.
  void passed(int tokens, double seconds) noexcept;
  /// Learns that the first `right` of `guesses` guesses were right.
  void checked(int kind, int guesses, int right) noexcept;

 private:
  [[nodiscard]] double seconds(int tokens) const noexcept;

  static constexpr int kinds = own_layer + 1;
  struct Score {
    double right = 2.1;  ///< of `tried`: before anything is known, 7 of 10
    double tried = 3;
  };
  std::array<Score, kinds> scores_ = {};
  std::array<double, most + 2> seconds_ = {};  ///< by tokens in a pass; 0: not seen yet
};

}  // namespace bantam::inline v0
