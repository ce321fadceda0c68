// Guessing the next tokens, so that one pass over the weights may confirm several of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "bantam/core/team.hpp"
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

/// How long passes take, by the tokens in them, as far as was seen. The past fades.
class PassCosts {
 public:
  /// Remembers passes of up to `most` tokens.
  explicit PassCosts(int most) : seconds_(static_cast<std::size_t>(most) + 1) {}
  /// Of passes not seen yet: as long as the widest one seen below, which is too little and so gets them tried; 1 where none was seen.
  [[nodiscard]] double seconds(int tokens) const noexcept;
  /// The most tokens of a pass that was seen; 0 when none was.
  [[nodiscard]] int widest() const noexcept { return widest_; }
  /// Of a pass over one token; 0 when none was seen.
  [[nodiscard]] double single() const noexcept { return seconds_[1]; }
  void passed(int tokens, double seconds) noexcept;

 private:
  std::vector<double> seconds_;  ///< by tokens; 0: not seen yet
  int widest_ = 0;
};

/// Guesses of what follows a text, which are yet to be made.
struct GuessOffer {
  double right = 0;    ///< how probable it is that one behind right ones is right
  int available = 0;   ///< how many there may be
  double seconds = 0;  ///< that each takes to be made
};

/// How many guesses of each offer give the most tokens a second when they are checked in one pass of at most `most` tokens, with one token of
/// each of `texts` texts, which draws another one. Where texts are many a pass is as long as its tokens, and guesses stop paying.
[[nodiscard]] std::vector<int> guess_widths(std::span<const GuessOffer> offers, int texts, int most, FunctionRef<double(int)> pass_seconds);

/// How often guesses of a text were right, and how many of them are worth checking where it is alone in its passes.
class SpeculationPolicy {
 public:
  static constexpr int most = 16;
  /// The kind of guesses that the model's own layer for them makes.
  static constexpr int own_layer = Lookup::longest + 1;

  /// The number of guesses, 0 to `available`, that gives the most tokens a second when each takes `guess_seconds` to
  /// make. `kind` tells sources of guesses apart: 0 is a draft model, own_layer the model itself, others how
  /// many tokens a lookup matched.
  [[nodiscard]] int width(int kind, int available, double guess_seconds) const { return width({right(kind), available, guess_seconds}); }
  [[nodiscard]] int width(const GuessOffer& offer) const;
  /// How probable it is that a guess of this kind behind right ones is right.
  [[nodiscard]] double right(int kind) const noexcept { return scores_[static_cast<std::size_t>(kind)].right / scores_[static_cast<std::size_t>(kind)].tried; }
  /// Seconds of a pass over one token; 0 when none was seen.
  [[nodiscard]] double single_pass() const noexcept { return costs_.single(); }
  /// Learns from a pass over `tokens` tokens that took so long.
  void passed(int tokens, double seconds) noexcept { costs_.passed(tokens, seconds); }
  /// Learns that the first `right` of `guesses` guesses were right.
  void checked(int kind, int guesses, int right) noexcept;

 private:
  static constexpr int kinds = own_layer + 1;
  struct Score {
    double right = 2.1;  ///< of `tried`: before anything is known, 7 of 10
    double tried = 3;
  };
  std::array<Score, kinds> scores_ = {};
  PassCosts costs_{most + 1};
};

}  // namespace bantam::inline v0
