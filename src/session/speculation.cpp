// Prompt lookup, and the width that pays.
#include "speculation.hpp"

#include <algorithm>
#include <queue>

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

double PassCosts::seconds(int tokens) const noexcept {
  for (int n = std::min(tokens, widest_); n > 0; --n) {
    if (seconds_[static_cast<std::size_t>(n)] > 0) return seconds_[static_cast<std::size_t>(n)];
  }
  return 1;
}

void PassCosts::passed(int tokens, double elapsed) noexcept {
  if (tokens < 1 || tokens >= std::ssize(seconds_)) return;
  double& known = seconds_[static_cast<std::size_t>(tokens)];
  known = known == 0 ? elapsed : fading * known + (1 - fading) * elapsed;
  widest_ = std::max(widest_, tokens);
}

std::vector<int> guess_widths(std::span<const GuessOffer> offers, int texts, int most, FunctionRef<double(int)> pass_seconds) {
  std::vector<int> widths(offers.size()), best(offers.size());
  // The next guess of each offer by how probable it is that it and all before it are right; the first offer of equal ones.
  using Next = std::pair<double, std::ptrdiff_t>;
  std::priority_queue<Next> next;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    if (offers[i].available > 0) next.emplace(offers[i].right, -static_cast<std::ptrdiff_t>(i));
  }
  // A pass over n guesses of a text gives 1 + p + p^2 + ... + p^n tokens on average.
  double drawn = texts, making = 0;
  double best_rate = drawn / pass_seconds(texts);
  for (int tokens = texts + 1; tokens <= most && !next.empty(); ++tokens) {
    const auto [all_right, place] = next.top();
    next.pop();
    const auto i = static_cast<std::size_t>(-place);
    ++widths[i];
    drawn += all_right;
    making += offers[i].seconds;
    if (widths[i] < offers[i].available) next.emplace(all_right * offers[i].right, place);
    const double rate = drawn / (pass_seconds(tokens) + making);
    if (rate > best_rate) {
      best_rate = rate;
      best = widths;
    }
  }
  return best;
}

int SpeculationPolicy::width(const GuessOffer& offer) const {
  return guess_widths({&offer, 1}, 1, most + 1, [&](int tokens) { return costs_.seconds(tokens); }).front();
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
