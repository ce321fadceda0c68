// One text of a request, from its prompt to its end.
#include "scheduled_text.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "bantam/model/divergence.hpp"

namespace bantam::inline v0 {

namespace {

double ms_between(SchedulerClock::time_point from, SchedulerClock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// A token with the log probabilities that go with it: over all of the logits, `top` of the first `vocab` ones beside its own.
DrawnToken described(TokenId id, std::span<const float> logits, std::int32_t vocab, int top) {
  DrawnToken token{.id = id};
  if (top < 0) return token;
  const double log_total = log_sum_exp(logits);
  const auto logprob = [&](TokenId of) {
    return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(of)]) - log_total);
  };
  token.logprob = logprob(id);
  const auto better = [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  token.rank = 1;
  for (TokenId other = 0; other < vocab; ++other) token.rank += better(other, id) ? 1 : 0;
  if (top == 0) return token;
  std::vector<TokenId> order(static_cast<std::size_t>(vocab));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  const auto count = std::min(order.size(), static_cast<std::size_t>(top));
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count), better);
  for (std::size_t i = 0; i < count; ++i) token.top.emplace_back(order[i], logprob(order[i]));
  return token;
}

}  // namespace

std::optional<TextEnd> Scheduler::Job::unwanted(SchedulerClock::time_point now) const {
  if (cancelled) return TextEnd::cancelled;
  if (request.most_time.count() > 0 && now - came > request.most_time) return TextEnd::late;
  if (!begun && request.most_waiting.count() > 0 && now - came > request.most_waiting) return TextEnd::late;
  return std::nullopt;
}

std::span<const TokenId> Scheduler::Text::sought() const {
  const std::span<const TokenId> prompt = tokens();
  return prompt.first(job->request.reuse && !scores_prompt() ? prompt.size() - 1 : 0);
}

std::int64_t Scheduler::Text::tokens_left() const {
  const Session::State& s = *session->state_;
  return std::ssize(s.tokens) - s.sequence.tokens();
}

void Scheduler::Text::want_states(Engine::Sequence& part) {
  Session::State& s = *session->state_;
  if (!s.own) return;
  states.resize(part.tokens.size() * static_cast<std::size_t>(s.model().config().dim));
  part.states = states;
}

void Scheduler::Text::forget_guesses() {
  if (guesses.tokens.empty()) return;
  guesses = {};
  session->state_->forget_unconfirmed();
}

Engine::Sequence Scheduler::Text::next_token() {
  Session::State& s = *session->state_;
  Engine::Sequence part = s.unread();
  if (!guesses.tokens.empty()) {
    checked.assign(1, s.tokens.back());
    checked.insert(checked.end(), guesses.tokens.begin(), guesses.tokens.end());
    logits.resize(checked.size() * static_cast<std::size_t>(s.model().config().vocab));
    part.tokens = checked;
    part.first_output = 0;
  }
  piece_begin = s.sequence.tokens();
  want_states(part);
  return part;
}

Engine::Sequence Scheduler::Text::next_piece(std::int64_t count) {
  Session::State& s = *session->state_;
  piece_begin = s.sequence.tokens();
  // Logits are known behind the last of all.
  const std::int64_t first_output = count == tokens_left() ? count - 1 : count;
  s.logits.reserve(static_cast<std::size_t>(s.model().config().vocab));
  Engine::Sequence part{.tokens = std::span<const TokenId>(s.tokens).subspan(static_cast<std::size_t>(piece_begin), static_cast<std::size_t>(count)),
                        .state = &s.sequence,
                        .first_output = scores_prompt() ? 0 : first_output,
                        .adapters = s.options.adapters};
  want_states(part);
  return part;
}

void Scheduler::Text::end_pass() {
  Session::State& s = *session->state_;
  if (!s.own) return;
  try {
    s.own->add(piece_begin, states);
    // The layer that drafts reads what is known between pieces, so that no more than one waits.
    if (is_reading() && tokens_left() > 0) s.own->catch_up(s.tokens);
  } catch (const std::exception&) {
    s.own.reset();  // nothing but speed hangs on it
  }
}

void Scheduler::Text::take_logits(std::int64_t index, std::span<const float> row) {
  Session::State& s = *session->state_;
  if (!guesses.tokens.empty()) {
    std::ranges::copy(row, logits.begin() + index * std::ssize(row));
    return;
  }
  const auto next = static_cast<std::size_t>(piece_begin + index + 1);
  if (is_reading() && next < tokens().size()) {
    scored.push_back(described(tokens()[next], row, s.vocab(), job->request.prompt_logprobs));
  } else {
    s.logits.assign(row.begin(), row.end());
  }
}

void Scheduler::Text::place(int place) {
  job->begun = true;
  stats.place = place;
  placed = SchedulerClock::now();
  stats.waited_ms = ms_between(job->came, placed);
  stats.prompt_tokens = std::ssize(tokens());
}

void Scheduler::Text::start_reading(std::unique_ptr<Session> beginning, std::size_t common) {
  session = std::move(beginning);
  Session::State& s = *session->state_;
  s.drop_from(common);
  s.forget_reply();
  stats.reused_tokens = stats.read_tokens = s.sequence.tokens();
  s.tokens = tokens();
}

void Scheduler::Text::share_prompt() {
  if (job->request.count > 1) job->read[prompt()] = std::make_unique<Session>(session->fork());
}

void Scheduler::Text::take_prompt() {
  std::unique_ptr<Session>& read = job->read[prompt()];
  const bool is_last = static_cast<int>(choice()) + 1 == job->request.count;
  session = is_last ? std::move(read) : std::make_unique<Session>(read->fork());
  stats.reused_tokens = stats.read_tokens = stats.prompt_tokens;
}

void Scheduler::Text::start_generating(const Speculation& speculation) {
  GenerateOptions generate = job->request.generate;
  generate.speculation = speculation;
  generate.sampling.seed += choice();
  range = session->stream(std::span<const TokenId>{}, std::move(generate));
  range->started_ = true;
}

std::vector<DrawnToken> Scheduler::Text::draw() {
  Session::State& s = *session->state_;
  range->piece_.clear();
  std::vector<DrawnToken> drawn;
  if (range->at_limit()) {
    range->finish(Finish::length);
    return drawn;
  }
  if (first_token == SchedulerClock::time_point{}) {
    first_token = SchedulerClock::now();
    stats.prompt_ms = ms_between(placed, first_token);
  }
  const auto take = [&](std::span<const float> row) {
    drawn.push_back(described(range->tokens_.back(), row.first(static_cast<std::size_t>(s.vocab())), s.vocab(), job->request.top_logprobs));
    ++stats.generated_tokens;
  };
  if (!guesses.tokens.empty()) {
    const Guesses now = std::exchange(guesses, {});
    range->confirm(now.kind, now.tokens, logits, take);
    logits = {};
    stats.guessed_tokens = range->stats_.guessed_tokens;
    stats.right_guesses = range->stats_.right_guesses;
    if (!s.logits.empty()) return drawn;  // it ended
  } else {
    if (!range->choose(s.logits)) return drawn;
    take(s.logits);
    s.logits.clear();
  }
  // Known now, and nobody has to wait another step for it.
  if (range->finish_ == Finish::running && range->at_limit()) range->finish(Finish::length);
  return drawn;
}

void Scheduler::Text::draw_ahead() noexcept {
  try {
    ahead = draw();
  } catch (...) {
    ahead_failed = std::current_exception();
  }
}

std::vector<DrawnToken> Scheduler::Text::take_drawn() {
  if (ahead_failed) std::rethrow_exception(std::exchange(ahead_failed, nullptr));
  return ahead ? *std::exchange(ahead, std::nullopt) : draw();
}

void Scheduler::Text::tell(TextUpdate update) {
  if (first_token != SchedulerClock::time_point{})
    stats.generate_ms = ms_between(first_token, SchedulerClock::now());
  update.text = number;
  try {
    job->listener(update);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {
    job->cancelled = true;
  }
}

}  // namespace bantam::inline v0
