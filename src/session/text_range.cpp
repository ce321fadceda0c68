// Generation, step by step: sample, decode, hold back what may be the beginning of a stop text. Guesses are checked and
// batches advanced here.
#include <algorithm>
#include <exception>
#include <limits>

#include "state.hpp"

namespace bantam::inline v0 {

namespace {

/// Lets no token come that `is_out`, unless no other may.
void leave_out(std::span<float> logits, FunctionRef<bool(TokenId)> is_out) {
  constexpr float never = -std::numeric_limits<float>::infinity();
  std::vector<std::size_t> out;
  bool others = false;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] == never) continue;
    is_out(static_cast<TokenId>(id)) ? out.push_back(id) : static_cast<void>(others = true);
  }
  for (const std::size_t id : others ? out : std::vector<std::size_t>()) logits[id] = never;
}

}  // namespace

std::string_view to_string(Finish finish) noexcept {
  switch (finish) {
    case Finish::running: return "running";
    case Finish::stop: return "stop";
    case Finish::length: return "length";
    case Finish::cancelled: return "cancelled";
  }
  return "";
}

TextRange::TextRange(Session& session, GenerateOptions options)
    : session_(&session), options_(std::move(options)), stream_(session.model().tokenizer(), false, options_.spell) {
  stats_.prompt_tokens = session.state_->prompt_tokens;
  stats_.prompt_ms = session.state_->prompt_ms;
}

TextRange::Iterator TextRange::begin() {
  if (!started_) {
    started_ = true;
    advance();
  }
  return Iterator(this);
}

std::optional<std::string_view> TextRange::next() {
  started_ = true;
  if (!done_) advance();
  return done_ ? std::nullopt : std::optional<std::string_view>(piece_);
}

std::string TextRange::text() {
  std::string all;
  for (const std::string_view piece : *this) all += piece;
  return all;
}

/// The next piece that may be handed out, or the end.
void TextRange::advance() {
  piece_.clear();
  while (piece_.empty() && finish_ == Finish::running) step();
  if (piece_.empty()) done_ = true;
}

bool TextRange::at_limit() const {
  const Session::State& s = *session_->state_;
  return static_cast<std::int64_t>(tokens_.size()) == options_.max_tokens || static_cast<std::int64_t>(s.tokens.size()) >= s.context;
}

void TextRange::finish(Finish why) {
  finish_ = why;
  ready_ += stream_.finish();
  hold_back_stop_prefix();
  piece_ += ready_;
  ready_.clear();
}

void TextRange::count_time(double seconds) {
  stats_.generate_ms += 1000 * seconds;
  stats_.tokens_per_second = stats_.generate_ms > 0 ? 1000.0 * static_cast<double>(stats_.generated_tokens) / stats_.generate_ms : 0;
}

/// Draws a token and takes it into text and session. False when the generation ended without one.
bool TextRange::choose(std::span<const float> logits) {
  Session::State& s = *session_->state_;
  const Tokenizer& tokenizer = s.model().tokenizer();
  const auto vocab = std::min<std::size_t>(logits.size(), static_cast<std::size_t>(tokenizer.vocab_size()));
  logits = logits.first(vocab);
  // A text that is whole before it begins, or was when it was cut off.
  if (s.matcher && s.matcher->finished()) {
    finish(Finish::stop);
    return false;
  }
  const auto ends = [&](TokenId id) {
    return (tokenizer.ends_generation(id) && !options_.ignore_end) || std::ranges::find(options_.end_tokens, id) != options_.end_tokens.end();
  };
  const bool goes_on = std::ssize(tokens_) < options_.min_tokens;
  if (options_.process || s.matcher || goes_on) {
    processed_.assign(logits.begin(), logits.end());
    if (options_.process && !options_.process(s.tokens, processed_)) {
      finish(Finish::stop);
      return false;
    }
    if (s.matcher) s.matcher->apply(processed_);
    if (goes_on) leave_out(processed_, ends);
    logits = processed_;
  }
  const TokenId id = s.sampler->sample(logits);
  s.sampler->accept(id);
  if (s.matcher && !s.matcher->accept(id)) fail(Errc::corrupt, "grammar: expected a token that may come, the sampler chose ", id);
  if (ends(id)) {
    finish(Finish::stop);
    return false;
  }
  s.tokens.push_back(id);
  tokens_.push_back(id);
  ready_ += stream_.push(id);
  hold_back_stop_prefix();
  stats_.generated_tokens = static_cast<std::int64_t>(tokens_.size());
  // Nothing may follow: no pass is spent on finding out.
  if (s.matcher && finish_ == Finish::running && s.matcher->finished()) finish(Finish::stop);
  return true;
}

void TextRange::step() {
  if (at_limit()) return finish(Finish::length);
  const Stopwatch watch;
  Session::State& s = *session_->state_;
  if (!speculate()) {
    const Stopwatch pass;
    const bool single = s.logits.empty() && static_cast<std::int64_t>(s.tokens.size()) == s.sequence.tokens() + 1;
    s.catch_up();
    if (single) s.policy.passed(1, pass.seconds());
    if (choose(s.logits)) s.logits.clear();
  }
  count_time(watch.seconds());
}

int TextRange::guess_room() const {
  const Session::State& s = *session_->state_;
  const auto held = static_cast<std::int64_t>(s.tokens.size());
  if (!s.logits.empty() || held != s.sequence.tokens() + 1) return 0;
  const std::int64_t wanted = options_.max_tokens < 0 ? s.context : options_.max_tokens - static_cast<std::int64_t>(tokens_.size());
  return static_cast<int>(std::clamp<std::int64_t>(std::min(s.context - held, wanted) - 1, 0, SpeculationPolicy::most));
}

/// What the grammar does not let come is not worth a place in the pass.
void TextRange::keep_allowed(std::vector<TokenId>& guesses) {
  Session::State& s = *session_->state_;
  if (!s.matcher) return;
  std::size_t allowed = 0;
  try {
    while (allowed < guesses.size() && s.matcher->accept(guesses[allowed])) ++allowed;
  } catch (...) {
    s.matcher->rewind(allowed);
    throw;
  }
  s.matcher->rewind(allowed);
  guesses.resize(allowed);
}

/// Guesses, checks the guesses in one pass, and takes the tokens that come out; false when there is nothing to guess.
/// Every token is drawn from the model's own logits, as without guesses, so the text is the same.
bool TextRange::speculate() {
  Session::State& s = *session_->state_;
  Guesses guesses = s.guess(options_.speculation, guess_room());
  keep_allowed(guesses.tokens);
  if (guesses.tokens.empty()) return false;

  std::vector<TokenId> waiting{s.tokens.back()};
  waiting.insert(waiting.end(), guesses.tokens.begin(), guesses.tokens.end());
  const auto vocab = static_cast<std::size_t>(s.model().config().vocab);
  std::vector<float> logits(waiting.size() * vocab);
  const Stopwatch pass;
  try {
    s.read(waiting, 0, [&](std::int64_t index, std::span<const float> row) {
      std::copy(row.begin(), row.end(), logits.begin() + index * static_cast<std::int64_t>(vocab));
    });
  } catch (...) {
    s.forget_unconfirmed();  // a callback can throw when all is read
    throw;
  }
  s.policy.passed(static_cast<int>(waiting.size()), pass.seconds());
  confirm(guesses.kind, guesses.tokens, logits, [](std::span<const float>) {});
  return true;
}

/// Takes the tokens that come out of a pass over the token that waited and guesses behind it, by its logits, (1 + guesses, vocab). `drawn` is
/// called with the logits of each, when it is taken.
void TextRange::confirm(int kind, std::span<const TokenId> guesses, std::span<const float> logits, FunctionRef<void(std::span<const float>)> drawn) {
  Session::State& s = *session_->state_;
  const auto vocab = static_cast<std::size_t>(s.model().config().vocab);
  std::size_t right = 0;
  try {
    while (true) {
      const auto row = logits.subspan(right * vocab, vocab);
      if (!choose(row)) {
        s.logits.assign(row.begin(), row.end());
        break;
      }
      drawn(row);
      if (finish_ != Finish::running || right == guesses.size() || s.tokens.back() != guesses[right]) break;
      ++right;
    }
  } catch (...) {
    s.forget_unconfirmed();
    throw;
  }
  s.forget_unconfirmed();
  s.policy.checked(kind, static_cast<int>(guesses.size()), static_cast<int>(right));
  stats_.guessed_tokens += std::ssize(guesses);
  stats_.right_guesses += static_cast<std::int64_t>(right);
}

/// A token for each, of the logits that their sessions have. Where nobody else's code is called all threads choose. Throws the first that a
/// choice throws, when all have chosen.
void TextRange::choose_all(std::span<TextRange* const> ranges) {
  if (ranges.empty()) return;
  std::vector<std::exception_ptr> thrown(ranges.size());
  const auto choose = [&](std::int64_t i) noexcept {
    TextRange& range = *ranges[static_cast<std::size_t>(i)];
    Session::State& s = *range.session_->state_;
    try {
      if (range.choose(s.logits)) s.logits.clear();
    } catch (...) {
      thrown[static_cast<std::size_t>(i)] = std::current_exception();
    }
  };
  Engine& engine = ranges.front()->session_->state_->engine;
  const bool calls_others = std::ranges::any_of(ranges, [](const TextRange* range) { return static_cast<bool>(range->options_.process); });
  if (!calls_others && is_worth_dealing(engine, std::ssize(ranges))) {
    engine.for_each(std::ssize(ranges), choose);
  } else {
    for (std::int64_t i = 0; i < std::ssize(ranges); ++i) choose(i);
  }
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

std::size_t advance(std::span<TextRange> generations) {
  std::vector<TextRange*> pointers;
  for (TextRange& generation : generations) pointers.push_back(&generation);
  return advance(pointers);
}

std::size_t advance(std::span<TextRange* const> generations) {
  const Stopwatch watch;
  std::vector<TextRange*> running;
  std::vector<Engine::Sequence> sequences;
  std::vector<Session::State*> states;
  for (TextRange* g : generations) {
    g->started_ = true;
    g->piece_.clear();
    if (g->finish_ == Finish::running && g->at_limit()) g->finish(Finish::length);
    if (g->finish_ != Finish::running) continue;
    Session::State& s = *g->session_->state_;
    for (const TextRange* other : running) s.check_together(*other->session_->state_);
    running.push_back(g);
    if (!s.logits.empty()) continue;
    sequences.push_back(s.unread());
    states.push_back(&s);
  }
  if (!sequences.empty()) {
    states.front()->engine.run(
        sequences, [&](std::int64_t i, std::int64_t, std::span<const float> row) { states[static_cast<std::size_t>(i)]->logits.assign(row.begin(), row.end()); },
        [](std::int64_t) { return true; }, Engine::Output::logits, SinkCalls::at_once);
  }
  TextRange::choose_all(running);
  std::size_t left = 0;
  for (const TextRange* g : running) left += g->finish_ == Finish::running ? 1 : 0;
  for (TextRange* g : running) g->count_time(watch.seconds());
  return left;
}

/// Moves from ready_ to piece_ what can no longer become a stop text; ends the generation at one.
void TextRange::hold_back_stop_prefix() {
  std::size_t cut = std::string::npos;
  std::size_t held = 0;
  for (const std::string& stop : options_.stop) {
    if (const std::size_t found = ready_.find(stop); found < cut) {
      cut = found;
      stop_text_ = stop;
    }
    for (std::size_t n = std::min(stop.size() - 1, ready_.size()); n > held; --n) {
      if (std::string_view(ready_).ends_with(std::string_view(stop).substr(0, n))) held = n;
    }
  }
  if (cut != std::string::npos) {
    piece_ += ready_.substr(0, cut);
    ready_.clear();
    finish_ = Finish::stop;
    return;
  }
  piece_ += ready_.substr(0, ready_.size() - held);
  ready_.erase(0, ready_.size() - held);
}

}  // namespace bantam::inline v0
