// The scheduler's thread: what begins, what ends, and who hears of it.
#include <algorithm>
#include <new>

#include "scheduler_impl.hpp"

namespace bantam::inline v0 {

void Scheduler::Impl::loop() {
  for (;;) {
    bool ends = false;
    std::vector<std::packaged_task<void()>> doing;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return ending || !incoming.empty() || !tasks.empty() || !queue.texts().empty() || !running.empty(); });
      queue.texts().splice(queue.texts().end(), incoming);
      doing = std::exchange(tasks, {});
      ends = ending;
    }
    for (std::packaged_task<void()>& task : doing) task();
    doing.clear();
    if (ends) {
      end_all(queue.texts(), TextEnd::cancelled);
      end_all(running, TextEnd::cancelled);
      return;
    }
    end_unwanted(queue.texts());
    end_unwanted(running);
    try {
      give_places();
      if (!running.empty()) step();
    } catch (const std::bad_alloc&) {
      relieve();
    }
    show();
  }
}

void Scheduler::Impl::relieve() noexcept {
  if (!kept.empty()) return kept.clear();
  if (!running.empty()) {
    // The last of those that matter least.
    const auto least = std::ranges::min_element(running.rbegin(), running.rend(), {}, [](const Text& text) { return text.job->request.priority; });
    return fail_with(*least, out_of_memory);
  }
  if (queue.texts().empty()) return;
  finish(queue.texts().back(), TextEnd::failed, {}, out_of_memory);
  queue.texts().pop_back();
}

void Scheduler::Impl::show() {
  std::int64_t bytes = kept.bytes();
  for (const Text& text : running) bytes += text.session ? text.session->kv_bytes() : 0;
  for (const std::unique_ptr<Session>& draft : drafts) bytes += draft ? draft->kv_bytes() : 0;
  const std::lock_guard lock(mutex);
  counts.parallel = options.parallel;
  counts.context = prototype.context();
  counts.running = static_cast<int>(running.size());
  counts.waiting = static_cast<int>(queue.texts().size());
  counts.kept = kept.count();
  counts.kv_bytes = bytes;
  counts.requests = static_cast<int>(jobs.size());
  counts.refused = shown.refused;
  shown = counts;
}

void Scheduler::Impl::finish(Text& text, TextEnd end, std::span<const DrawnToken> tokens, const TextFailure& failure) {
  if (text.job->left == 1) {
    // Whoever hears of the end finds room for another request.
    const std::lock_guard lock(mutex);
    --unended;
  }
  TextUpdate update{.tokens = tokens, .end = end, .error = failure.message, .code = failure.code, .stats = text.stats};
  const bool whole = end == TextEnd::stop || end == TextEnd::length;
  if (whole) update.piece = text.range->piece_;
  if (whole) update.stop_text = text.range->stop_text_;
  try {
    text.tell(update);
  } catch (const std::bad_alloc&) {
    // The end is heard of; what came with it is lost.
    try {
      text.tell({.end = TextEnd::failed, .error = out_of_memory.message, .code = out_of_memory.code, .stats = text.stats});
    } catch (const std::bad_alloc&) {
    }
  }
  text.range.reset();
  if (end != TextEnd::failed && text.job->request.reuse) kept.keep(std::move(text.session), text.stats.place);
  text.session.reset();
  if (--text.job->left > 0) return;
  text.job->listener = {};
  show();  // whoever waits for the last request to end finds it counted
  const std::lock_guard lock(mutex);
  jobs.erase(text.job->id);
  const std::string& client = text.job->request.client;
  if (std::ranges::none_of(jobs, [&](const auto& job) { return job.second->request.client == client; })) queue.forget(client);
  shown.requests = static_cast<int>(jobs.size());
  if (jobs.empty()) emptied.notify_all();
}

void Scheduler::Impl::end_all(Texts& texts, TextEnd end) {
  for (Text& text : texts) finish(text, end);
  texts.clear();
}

void Scheduler::Impl::end_unwanted(Texts& texts) {
  const auto now = SchedulerClock::now();
  for (auto text = texts.begin(); text != texts.end();) {
    const std::optional<TextEnd> end = text->job->unwanted(now);
    if (end) finish(*text, *end);
    text = end ? texts.erase(text) : std::next(text);
  }
}

namespace {

TextFailure failure_of_current() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.what(), error.code()};
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return {error.what()};
  } catch (...) {
    return {"an exception of unknown type"};
  }
}

}  // namespace

void Scheduler::Impl::fail_current(Text& text) {
  TextFailure failure;
  try {
    failure = failure_of_current();
  } catch (const std::bad_alloc&) {  // or there is none for the message
    failure = out_of_memory;
  }
  fail_with(text, failure);
}

void Scheduler::Impl::fail_with(Text& text, const TextFailure& failure) {
  const auto job = text.job;
  const std::size_t prompt = text.prompt();
  const bool was_reading = text.is_reading();
  finish(text, TextEnd::failed, {}, failure);
  std::erase_if(running, [&](const Text& other) { return &other == &text; });
  if (!was_reading) return;
  Texts& waiting = queue.texts();
  for (auto other = waiting.begin(); other != waiting.end();) {
    const bool hangs = other->job == job && other->prompt() == prompt && other->is_blocked();
    if (hangs) finish(*other, TextEnd::failed, {}, failure);
    other = hangs ? waiting.erase(other) : std::next(other);
  }
}

void Scheduler::Impl::give_places() {
  const auto may_begin = [&](const Text& text) { return !text.is_blocked() && !is_being_read(text); };
  const int places = std::min(options.parallel, most_places.load());
  while (std::ssize(running) < places && queue.give_place(running, may_begin)) begin(running.back());
}

void Scheduler::Impl::begin(Text& text) {
  text.place(free_place(text));
  try {
    if (text.choice() == 0) {
      start_reading(text);
    } else {
      text.take_prompt();
      text.start_generating(speculation_of(text));
    }
    counts.reused_tokens += text.stats.reused_tokens;
  } catch (...) {
    fail_current(text);
  }
}

int Scheduler::Impl::free_place(const Text& text) const {
  const auto is_free = [&](int place) {
    return std::ranges::none_of(running, [&](const Text& other) { return &other != &text && other.stats.place == place; });
  };
  const int wanted = text.number == 0 ? text.job->request.place : -1;
  if (wanted >= 0 && wanted < options.parallel && is_free(wanted)) return wanted;
  int place = 0;
  while (!is_free(place)) ++place;
  return place;
}

bool Scheduler::Impl::is_being_read(const Text& text) {
  // A page of keys and values.
  constexpr std::size_t worth_it = 64;
  if (text.choice() > 0) return false;
  const std::span<const TokenId> sought = text.sought();
  std::size_t coming = 0;
  for (const Text& other : running) {
    const bool is_alike = other.session && other.is_reading() && other.job->adapters == text.job->adapters;
    if (is_alike) coming = std::max(coming, common_length(sought, other.session->tokens()));
  }
  return coming >= worth_it && coming >= kept.find(text, running).common + worth_it;
}

void Scheduler::Impl::start_reading(Text& text) {
  const KeptTexts::Known known = kept.find(text, running);
  const SessionOptions fresh{.context = options.context, .kv = options.kv, .adapters = *text.job->request.adapters, .memory = options.memory};
  std::unique_ptr<Session> session = known.session != nullptr ? kept.take(known) : std::make_unique<Session>(engine, fresh);
  session->state_->prepare({.mtp = std::max(options.mtp, text.job->request.generate.speculation.mtp)});
  text.start_reading(std::move(session), known.common);
  if (text.job->request.tells_reading) text.tell({.stats = text.stats});
}

}  // namespace bantam::inline v0
