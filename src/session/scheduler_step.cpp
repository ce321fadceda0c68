// A step: a token more for each text that is generated, and pieces of prompts, in the same pass over the weights.
#include <algorithm>
#include <new>
#include <utility>

#include "bantam/model/forward.hpp"
#include "scheduler_impl.hpp"

namespace bantam::inline v0 {

std::int64_t Scheduler::Impl::reading_room(std::int64_t generating, std::int64_t readers) const {
  // Alone they get whole passes: a pass costs little more than its weights.
  const std::int64_t most = std::max<std::int64_t>(1, Forward::largest_chunk - generating);
  if (generating == 0 || seconds_per_token == 0) return most;
  // Fewer would read the weights for next to nothing.
  constexpr std::int64_t least = 32;
  const auto fitting = static_cast<std::int64_t>(std::chrono::duration<double>(options.step).count() / seconds_per_token);
  return std::min(most, std::max({least, readers, fitting}));
}

void Scheduler::Impl::step() {
  std::vector<Text*> generating, reading;
  for (Text& text : running) (text.is_reading() ? reading : generating).push_back(&text);
  std::vector<Text*> in_pass;
  std::int64_t readers = std::ssize(reading), unread = 0, generated = 0, read = 0;
  for (const Text* text : reading) unread += text->tokens_left();
  for (Text* text : generating) {
    // Forks of a prompt know their logits, and what may write no token needs none.
    if (text->session->state_->logits.empty() && !text->range->at_limit()) in_pass.push_back(text);
  }
  guess(in_pass, std::min(unread, reading_room(std::ssize(in_pass), readers)));
  std::vector<Engine::Sequence> sequences;
  for (Text* text : in_pass) {
    sequences.push_back(text->next_token());
    generated += std::ssize(sequences.back().tokens);
  }
  // The shortest first: a short prompt does not wait for a long one, and what it leaves goes to the others.
  std::ranges::stable_sort(reading, {}, &Text::tokens_left);
  std::int64_t room = reading_room(generated, readers);
  for (Text* text : reading) {
    const std::int64_t count = std::min(text->tokens_left(), (room + readers - 1) / readers);
    --readers;
    if (count == 0) continue;
    room -= count;
    read += count;
    sequences.push_back(text->next_piece(count));
    in_pass.push_back(text);
  }
  if (!sequences.empty() && !pass(in_pass, sequences, read)) return;
  for (Text* text : reading) go_on_reading(*text, generating);
  ++counts.steps;
  counts.stepped_texts += std::ssize(generating);
  draw_ahead(generating);
  for (Text* text : generating) draw(*text);
}

void Scheduler::Impl::go_on_reading(Text& text, std::vector<Text*>& generating) {
  try {
    text.stats.read_tokens = text.stats.prompt_tokens - text.tokens_left();
    if (!text.scored.empty() || text.job->request.tells_reading) text.tell({.prompt = text.scored, .stats = text.stats});
    if (text.tokens_left() > 0) return;
    // The next turn of a conversation may begin here again: templates leave out what was thought.
    text.session->state_->sequence.keep_checkpoint();
    text.share_prompt();
    text.start_generating(speculation_of(text));
    generating.push_back(&text);
  } catch (...) {
    fail_current(text);
  }
}

bool Scheduler::Impl::pass(const std::vector<Text*>& texts, const std::vector<Engine::Sequence>& sequences, std::int64_t prompt_tokens) {
  const Stopwatch watch;
  const auto begin = std::chrono::steady_clock::now();
  for (Text* text : texts) text->scored.clear();
  const auto sink = [&](std::int64_t i, std::int64_t index, std::span<const float> row) { texts[static_cast<std::size_t>(i)]->take_logits(index, row); };
  // A long pass that nobody waits for is not worth its end.
  const auto keep_going = [&](std::int64_t) {
    return std::ranges::any_of(texts, [](const Text* text) { return !text->job->cancelled; });
  };
  try {
    // What prompts are scored by is told in order.
    const bool scores = std::ranges::any_of(texts, [](const Text* text) { return text->is_reading() && text->scores_prompt(); });
    engine.run(sequences, sink, keep_going, Engine::Output::logits, scores ? SinkCalls::in_order : SinkCalls::at_once);
  } catch (const Error& error) {
    if (error.code() == Errc::cancelled) return false;
    give_way(texts, {error.what(), error.code()});
    return false;
  } catch (const std::bad_alloc&) {
    give_way(texts, out_of_memory);
    return false;
  }
  const double seconds = watch.seconds();
  for (Text* text : texts) text->end_pass();
  if (prompt_tokens == 0) {
    std::int64_t tokens = 0;
    for (const Engine::Sequence& part : sequences) tokens += std::ssize(part.tokens);
    costs.passed(static_cast<int>(tokens), seconds);
  }
  const StreamStats weights = engine.stream_stats();
  const StreamStats taken = weights.since(std::exchange(counts.weights, weights));
  if (options.on_pass) options.on_pass({.begin = begin, .end = std::chrono::steady_clock::now(), .texts = std::ssize(texts), .prompt_tokens = prompt_tokens, .weights = taken});
  counts.prompt_tokens += prompt_tokens;
  (prompt_tokens > 0 ? counts.prompt_seconds : counts.generate_seconds) += seconds;
  // What passes cost depends on how many tokens they have: those with enough of them tell.
  if (prompt_tokens >= 32) {
    const double now = seconds / static_cast<double>(prompt_tokens);
    seconds_per_token = seconds_per_token == 0 ? now : 0.75 * seconds_per_token + 0.25 * now;
  }
  return true;
}

void Scheduler::Impl::give_way(const std::vector<Text*>& texts, const TextFailure& failure) {
  if (failure.code == Errc::out_of_memory) return relieve();
  for (Text* text : texts) fail_with(*text, failure);
}

void Scheduler::Impl::draw_ahead(const std::vector<Text*>& texts) {
  std::vector<Text*> alone;
  std::ranges::copy_if(texts, std::back_inserter(alone), [](const Text* text) { return text->draws_alone(); });
  if (!is_worth_dealing(engine, std::ssize(alone))) return;
  engine.for_each(std::ssize(alone), [&](std::int64_t i) { alone[static_cast<std::size_t>(i)]->draw_ahead(); });
}

void Scheduler::Impl::draw(Text& text) {
  try {
    const TextStats before = text.stats;
    const std::vector<DrawnToken> drawn = text.take_drawn();
    counts.generated_tokens += std::ssize(drawn);
    counts.guessed_tokens += text.stats.guessed_tokens - before.guessed_tokens;
    counts.right_guesses += text.stats.right_guesses - before.right_guesses;
    counts.most_tokens = std::max(counts.most_tokens, std::ssize(text.session->tokens()));
    const Finish finished = text.range->finish();
    if (finished == Finish::running) return text.tell({.piece = text.range->piece_, .tokens = drawn, .stats = text.stats});
    finish(text, finished == Finish::length ? TextEnd::length : TextEnd::stop, drawn);
    std::erase_if(running, [&](const Text& other) { return &other == &text; });
  } catch (...) {
    fail_current(text);
  }
}

}  // namespace bantam::inline v0
