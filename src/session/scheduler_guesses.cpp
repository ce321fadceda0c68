// Guesses of several texts that are checked in one pass: whose, how many, and where they are from.
#include <algorithm>

#include "bantam/model/forward.hpp"
#include "scheduler_impl.hpp"

namespace bantam::inline v0 {

Speculation Scheduler::Impl::speculation_of(const Text& text) {
  const Speculation& asked = text.job->request.generate.speculation;
  Speculation speculation{.lookup = std::max(asked.lookup, options.lookup), .mtp = std::max(asked.mtp, options.mtp)};
  if (!drafting) return speculation;
  // It follows the text that has the place, and knows what the one before had in common with it.
  std::unique_ptr<Session>& draft = drafts[static_cast<std::size_t>(text.stats.place)];
  try {
    if (!draft) draft = std::make_unique<Session>(*drafting, SessionOptions{.kv = options.kv, .memory = options.draft->memory});
  } catch (const std::exception&) {
    drafting.reset();  // no text needs it
  }
  speculation.draft = draft.get();
  return speculation;
}

void Scheduler::Impl::guess(const std::vector<Text*>& texts, std::int64_t prompt_tokens) {
  for (Text* text : texts) text->forget_guesses();
  try {
    make_guesses(texts, prompt_tokens);
  } catch (const std::exception&) {
    for (Text* text : texts) text->guesses = {};  // no text needs them
  }
}

void Scheduler::Impl::make_guesses(const std::vector<Text*>& texts, std::int64_t prompt_tokens) {
  // Beside a prompt a pass is as long as its tokens.
  if (prompt_tokens > 0 && seconds_per_token == 0) return;
  const auto pass_seconds = [&](int tokens) {
    return prompt_tokens == 0 ? costs.seconds(tokens) : seconds_per_token * static_cast<double>(prompt_tokens + tokens);
  };
  const auto count = static_cast<int>(texts.size());
  // Passes far wider than any that was seen are not begun at once.
  const int most = static_cast<int>(std::min<std::int64_t>(Forward::largest_chunk / 2, 2 * std::max({count, costs.widest(), SpeculationPolicy::most / 2})));
  const auto alone = [&](const GuessOffer& offer) { return guess_widths({&offer, 1}, count, most, pass_seconds).front(); };
  std::vector<Text*> guessing;
  std::vector<GuessSource> sources;
  std::vector<GuessOffer> offers;
  for (Text* text : texts) {
    GuessSource source = text->session->state_->guess_source(text->range->options_.speculation, text->range->guess_room(), alone);
    if (source.kind < 0) continue;
    guessing.push_back(text);
    offers.push_back(source.offer);
    sources.push_back(std::move(source));
  }
  if (guessing.empty()) return;
  const std::vector<int> widths = guess_widths(offers, count, most, pass_seconds);
  std::vector<Session::State::Drafting> wanted;
  std::vector<Text*> drafted;
  for (std::size_t i = 0; i < guessing.size(); ++i) {
    Text& text = *guessing[i];
    Session::State& s = *text.session->state_;
    if (widths[i] == 0) {
      s.policy.checked(sources[i].kind, 0, 0);
    } else if (sources[i].kind > 0) {
      text.guesses = {sources[i].kind, s.make_guesses(sources[i], widths[i])};
    } else {
      wanted.push_back({.draft = text.range->options_.speculation.draft->state_.get(), .past = s.tokens, .count = widths[i]});
      drafted.push_back(&text);
    }
  }
  draft(wanted);
  for (std::size_t i = 0; i < drafted.size(); ++i) drafted[i]->guesses = {0, std::move(wanted[i].guesses)};
  for (Text* text : guessing) text->range->keep_allowed(text->guesses.tokens);
}

void Scheduler::Impl::draft(std::vector<Session::State::Drafting>& wanted) {
  if (wanted.empty()) return;
  try {
    Session::State::draft_together(wanted, Forward::largest_chunk);
  } catch (const std::exception&) {
    // No text needs it: without memory for it there is none from here on.
    for (Session::State::Drafting& one : wanted) one.guesses.clear();
    for (Text& text : running) {
      if (text.range) text.range->options_.speculation.draft = nullptr;
    }
    for (std::unique_ptr<Session>& one : drafts) one.reset();
    drafting.reset();
  }
}

}  // namespace bantam::inline v0
