// Prompt lookup, and the width that pays.
#include "speculation.hpp"

#include <algorithm>

namespace bantam::inline v0 {

namespace {

// The past fades: text changes, and so does the machine's load.
constexpr double fading = 0.95;

}  // namespace

Lookup look_up(std::span<const TokenId> tokens, int most) {
  Lookup best;
  const auto size = static_cast<std::ptrdiff_t>(tokens.size());
  std::ptrdiff_t found = 0;
  // `end` is one behind the earlier occurrence.
  for (std::ptrdiff_t end = size - 1; end > 0 && best.matched < Lookup::longest; --end) {
    int matched = 0;
    while (matched < Lookup::longest && matched < end && tokens[static_cast<std::size_t>(end - 1 - matched)] == tokens[static_cast<std::size_t>(size - 1 - matched)]) ++matched;
    if (matched > best.matched) {
      best.matched = matched;
      found = end;
    }
  }
  if (best.matched == 0) return best;
  // Where the text since then is shorter than what may be guessed, it is taken to go round.
  const std::ptrdiff_t period = size - found;
  for (std::ptrdiff_t i = 0; i < most; ++i) best.following.push_back(tokens[static_cast<std::size_t>(found + i % period)]);
  return best;
}

/// Of passes not seen yet: as long as the widest one seen below, which is too little and so gets them tried.
double SpeculationPolicy::seconds(int tokens) const noexcept {
  for (int n = tokens; n > 0; --n) {
    if (seconds_[static_cast<std::size_t>(n)] > 0) return seconds_[static_cast<std::size_t>(n)];
  }
  return 1;
}

int SpeculationPolicy::width(int kind, int available, double guess_seconds) const noexcept {
  const Score& score = scores_[static_cast<std::size_t>(kind)];
  const double p = score.right / score.tried;
  int best = 0;
  double best_rate = 1 / seconds(1);
  // A pass over n guesses gives 1 + p + p^2 + ... + p^n tokens on average.
  double tokens = 1;
  double all_right = 1;
  for (int n = 1; n <= std::min(available, most); ++n) {
    all_right *= p;
    tokens += all_right;
    const double rate = tokens / (seconds(n + 1) + n * guess_seconds);
    if (rate > best_rate) {
      best_rate = rate;
      best = n;
    }
  }
  return best;
}

void SpeculationPolicy::passed(int tokens, double elapsed) noexcept {
  if (tokens < 1 || tokens > most + 1) return;
  double& known = seconds_[static_cast<std::size_t>(tokens)];
  known = known == 0 ? elapsed : fading * known + (1 - fading) * elapsed;
}

void SpeculationPolicy::checked(int kind, int guesses, int right) noexcept {
  Score& score = scores_[static_cast<std::size_t>(kind)];
  // Guesses behind the first wrong one say nothing. Where none was made, the score goes back to what it began as.
  const Score prior;
  const int tried = std::min(guesses, right + 1);
  score.right = prior.right + fading * (score.right - prior.right) + right;
  score.tried = prior.tried + fading * (score.tried - prior.tried) + tried;
}

}  // namespace bantam::inline v0
