// Where guesses of the next tokens come from: the session's own text, or a smaller model.
#include <algorithm>
#include <limits>

#include "bantam/model/forward.hpp"
#include "sampler_stages.hpp"
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

GuessSource Session::State::guess_source(const Speculation& speculation, int most, FunctionRef<int(const GuessOffer&)> width_of) {
  GuessSource source;
  most = std::min(most, SpeculationPolicy::most);
  if (most < 1) return source;
  const auto pays = [&](int kind, int available, double guess_seconds) {
    source.kind = kind;
    source.offer = {policy.right(kind), available, guess_seconds};
    source.width = width_of(source.offer);
    if (source.width < 1) policy.checked(kind, 0, 0);
    return source.width > 0;
  };
  if (speculation.lookup > 0) {
    Lookup found = look_up(tokens, std::min(speculation.lookup, most));
    source.found = std::move(found.following);
    // One token in common says next to nothing.
    if (found.matched > 1 && pays(found.matched, static_cast<int>(source.found.size()), 0)) return source;
  }
  if (speculation.mtp > 0 && own) {
    // What waits must not grow while nothing is guessed.
    if (own->waiting() >= Forward::largest_chunk) own->catch_up(tokens);
    if (pays(SpeculationPolicy::own_layer, std::min(speculation.mtp, most), own->seconds())) return source;
  }
  if (speculation.draft != nullptr) {
    const State& draft = *speculation.draft->state_;
    const auto room = draft.context - static_cast<std::int64_t>(tokens.size());
    if (pays(0, static_cast<int>(std::clamp<std::int64_t>(room, 0, most)), draft.policy.single_pass())) return source;
  }
  source.kind = -1;
  return source;
}

std::vector<TokenId> Session::State::make_guesses(GuessSource& source, int width) {
  if (width > 0 && source.kind == SpeculationPolicy::own_layer) return own->guess(tokens, width);
  source.found.resize(static_cast<std::size_t>(width));
  return std::move(source.found);
}

Guesses Session::State::guess(const Speculation& speculation, int most) {
  GuessSource source = guess_source(speculation, most, [&](const GuessOffer& offer) { return policy.width(offer); });
  if (source.kind < 0) return {};
  if (source.kind > 0) return {source.kind, make_guesses(source, source.width)};
  Drafting drafting{.draft = speculation.draft->state_.get(), .past = tokens, .count = source.width};
  draft_together({&drafting, 1}, std::numeric_limits<std::int64_t>::max());
  return {0, std::move(drafting.guesses)};
}

void Session::State::prepare(const Speculation& speculation) {
  if (speculation.mtp > 0 && !own) own.emplace(engine, options.kv, sequence, options.memory);
}

void Session::State::rewind(std::int64_t count) {
  sequence.truncate(count);
  if (own) own->truncate(count);
}

void Session::State::draft_together(std::span<Drafting> all, std::int64_t most) {
  std::vector<State*> states;
  std::vector<Engine::Sequence> sequences;
  for (Drafting& one : all) {
    State& s = *one.draft;
    const auto common = static_cast<std::size_t>(std::ranges::mismatch(one.past, s.tokens).in1 - one.past.begin());
    s.rewind(static_cast<std::int64_t>(common));
    s.tokens.assign(one.past.begin(), one.past.end());
    s.logits.clear();
    const std::int64_t waiting = std::ssize(s.tokens) - s.sequence.tokens(), now = std::min(waiting, most);
    most -= now;
    if (now == waiting) continue;
    one.count = 0;
    if (now == 0) continue;
    states.push_back(&s);
    sequences.push_back({.tokens = std::span<const TokenId>(s.tokens).subspan(static_cast<std::size_t>(s.sequence.tokens()), static_cast<std::size_t>(now)),
                         .state = &s.sequence,
                         .first_output = now,
                         .adapters = s.options.adapters});
  }
  for (int round = 0;; ++round) {
    for (const Drafting& one : all) {
      if (round >= one.count) continue;
      states.push_back(one.draft);
      sequences.push_back(one.draft->unread());
    }
    if (states.empty()) break;
    const Stopwatch pass;
    const bool single = std::ranges::all_of(sequences, [](const Engine::Sequence& part) { return part.tokens.size() == 1; });
    read(states, sequences, [&](std::int64_t i, std::int64_t, std::span<const float> row) { states[static_cast<std::size_t>(i)]->logits.assign(row.begin(), row.end()); });
    for (State* s : states) {
      if (single) s->policy.passed(1, pass.seconds() / static_cast<double>(states.size()));
      if (s->logits.empty()) continue;
      s->tokens.push_back(std::max<TokenId>(0, detail::most_probable(s->logits)));
      s->logits.clear();
    }
    states.clear();
    sequences.clear();
  }
  for (Drafting& one : all) one.guesses.assign(one.draft->tokens.end() - one.count, one.draft->tokens.end());
}

}  // namespace bantam::inline v0
