// Pairs for the layer that drafts, and its guesses.
#include "own_guesses.hpp"

#include <algorithm>

#include "bantam/core/stopwatch.hpp"
#include "sampler_stages.hpp"
#include "speculation.hpp"

namespace bantam::inline v0 {

OwnGuesses OwnGuesses::fork(Engine engine) const {
  OwnGuesses copy(std::move(engine), state_.fork());
  copy.pairs_ = pairs_;
  copy.first_ = first_;
  copy.waiting_ = waiting_;
  copy.seconds_ = seconds_;
  return copy;
}

void OwnGuesses::add(std::int64_t first, std::span<const float> states) {
  const std::int64_t known = first_ + waiting();
  if (first > known) {
    waiting_.clear();
    first_ = first;
  }
  const std::int64_t again = std::max<std::int64_t>(0, known - first) * dim();
  if (again < std::ssize(states)) waiting_.insert(waiting_.end(), states.begin() + again, states.end());
}

void OwnGuesses::truncate(std::int64_t count) {
  while (!pairs_.empty() && pairs_.back() + 1 >= count) pairs_.pop_back();
  state_.truncate(std::ssize(pairs_));
  if (count < first_) first_ = count;
  waiting_.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(count - first_, 0, waiting()) * dim()));
}

void OwnGuesses::catch_up(std::span<const TokenId> tokens) {
  const std::int64_t count = std::min(waiting(), std::ssize(tokens) - 1 - first_);
  if (count <= 0) return;
  state_.truncate(std::ssize(pairs_));  // a pass that failed may have left more
  logits_.resize(static_cast<std::size_t>(engine_.model().config().vocab));
  next_.resize(static_cast<std::size_t>(dim()));
  const auto states = std::span<const float>(waiting_).first(static_cast<std::size_t>(count * dim()));
  engine_.draft(state_, tokens.subspan(static_cast<std::size_t>(first_) + 1, static_cast<std::size_t>(count)), states, logits_, next_);
  for (std::int64_t i = 0; i < count; ++i) pairs_.push_back(first_ + i);
  first_ += count;
  waiting_.erase(waiting_.begin(), waiting_.begin() + count * dim());
}

std::vector<TokenId> OwnGuesses::guess(std::span<const TokenId> tokens, int count) {
  const Stopwatch watch;
  const std::int64_t before = first_;
  const bool usual = waiting() <= SpeculationPolicy::most + 1;  // what one pass over guesses leaves
  catch_up(tokens);
  const bool reached = first_ > before && first_ + 1 == std::ssize(tokens);
  if (!reached || count < 1) return {};
  std::vector<TokenId> guesses;
  while (true) {
    guesses.push_back(std::max<TokenId>(0, detail::most_probable(logits_)));
    if (std::ssize(guesses) == count) break;
    const std::vector<float> state = next_;
    engine_.draft(state_, {&guesses.back(), 1}, state, logits_, next_);
  }
  // What it read of its own guesses may be wrong.
  state_.truncate(std::ssize(pairs_));
  // The past fades, as the policy's does.
  const double each = watch.seconds() / count;
  if (usual) seconds_ = seconds_ == 0 ? each : 0.95 * seconds_ + 0.05 * each;
  return guesses;
}

}  // namespace bantam::inline v0
