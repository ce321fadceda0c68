// Where guesses of the next tokens come from: the session's own text, or a smaller model.
#include <algorithm>

#include "bantam/model/forward.hpp"
#include "state.hpp"

namespace bantam::inline v0 {

void Session::State::check(const Speculation& speculation) const {
  if (speculation.lookup < 0 || speculation.lookup > SpeculationPolicy::most) {
    fail(Errc::invalid_argument, "lookup: expected 0 to ", SpeculationPolicy::most, " tokens, found ", speculation.lookup);
  }
  if (speculation.mtp < 0 || speculation.mtp > SpeculationPolicy::most) {
    fail(Errc::invalid_argument, "mtp: expected 0 to ", SpeculationPolicy::most, " tokens, found ", speculation.mtp);
  }
  if (speculation.mtp > 0 && !engine.drafts()) fail(Errc::invalid_argument, "mtp: expected a model with a layer that drafts, found one without");
  if (speculation.draft == nullptr) return;
  if (model().config().has_source()) fail(Errc::unsupported, "draft: expected a model that goes on with a text, found one of type ", model().config().arch->name, ", whose decoder answers what its encoder reads");
  const State& draft = *speculation.draft->state_;
  if (&draft == this || draft.model().config().vocab != model().config().vocab) {
    fail(Errc::invalid_argument, "draft: expected another session, of a vocabulary of ", model().config().vocab, " tokens, found ",
         &draft == this ? "the same one" : message("one of ", draft.model().config().vocab));
  }
}

Guesses Session::State::guess(const Speculation& speculation, int most) {
  if (most < 1) return {};
  if (speculation.lookup > 0) {
    Lookup found = look_up(tokens, std::min(speculation.lookup, most));
    // One token in common says next to nothing.
    if (found.matched > 1) {
      const int width = policy.width(found.matched, static_cast<int>(found.following.size()), 0);
      found.following.resize(static_cast<std::size_t>(width));
      if (width > 0) return {found.matched, std::move(found.following)};
      policy.checked(found.matched, 0, 0);
    }
  }
  if (speculation.mtp > 0 && own) {
    const int width = policy.width(SpeculationPolicy::own_layer, std::min(speculation.mtp, most), own->seconds());
    // What waits must not grow while nothing is guessed.
    if (own->waiting() >= Forward::largest_chunk) own->catch_up(tokens);
    if (width > 0) {
      if (std::vector<TokenId> guesses = own->guess(tokens, width); !guesses.empty()) return {SpeculationPolicy::own_layer, std::move(guesses)};
    }
    policy.checked(SpeculationPolicy::own_layer, 0, 0);
  }
  if (speculation.draft == nullptr) return {};
  State& draft = *speculation.draft->state_;
  const auto room = draft.context - static_cast<std::int64_t>(tokens.size());
  const int width = policy.width(0, static_cast<int>(std::min<std::int64_t>(most, room)), draft.policy.single_pass());
  if (width > 0) return {0, draft.most_probable(tokens, width)};
  policy.checked(0, 0, 0);
  return {};
}

void Session::State::prepare(const Speculation& speculation) {
  if (speculation.mtp > 0 && !own) own.emplace(engine, options.kv);
}

void Session::State::rewind(std::int64_t count) {
  sequence.truncate(count);
  if (own) own->truncate(count);
}

std::vector<TokenId> Session::State::most_probable(std::span<const TokenId> past, int count) {
  const auto common = static_cast<std::size_t>(std::mismatch(past.begin(), past.end(), tokens.begin(), tokens.end()).first - past.begin());
  rewind(static_cast<std::int64_t>(common));
  tokens.assign(past.begin(), past.end());
  logits.clear();
  for (int i = 0; i < count; ++i) {
    const Stopwatch pass;
    const bool single = static_cast<std::int64_t>(tokens.size()) == sequence.tokens() + 1;
    catch_up();
    if (single) policy.passed(1, pass.seconds());
    tokens.push_back(static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    logits.clear();
  }
  return {tokens.end() - count, tokens.end()};
}

}  // namespace bantam::inline v0
