// What is kept, what of it a prompt may go on from, and what goes.
#include "kept_texts.hpp"

#include <algorithm>
#include <new>

namespace bantam::inline v0 {

std::size_t common_length(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

std::int64_t Scheduler::KeptTexts::One::save(TextSink sink) const {
  session->save_to(sink);
  return std::ssize(session->tokens());
}

void Scheduler::KeptTexts::keep(std::unique_ptr<Session> session, int place) {
  if (!session || most_ == 0) return;
  Session::State& s = *session->state_;
  // Of a prompt that was not read to its end, what was.
  if (std::ssize(s.tokens) > s.sequence.tokens() + 1) s.tokens.resize(static_cast<std::size_t>(s.sequence.tokens()));
  s.sampler.reset();
  s.matcher.reset();
  s.logits = {};
  if (s.tokens.empty()) return;
  try {
    texts_.push_front({std::move(session), place});
  } catch (const std::bad_alloc&) {
    return;  // without memory nothing is kept
  }
  while (count() > most_) texts_.pop_back();
}

Scheduler::KeptTexts::One* Scheduler::KeptTexts::of_place(int place) {
  const auto found = std::ranges::find(texts_, place, &One::place);
  return found == texts_.end() ? nullptr : &*found;
}

Scheduler::KeptTexts::One* Scheduler::KeptTexts::at(std::size_t number) {
  return number < texts_.size() ? &*std::next(texts_.begin(), static_cast<std::ptrdiff_t>(number)) : nullptr;
}

void Scheduler::KeptTexts::forget(const One& one) {
  std::erase_if(texts_, [&](const One& other) { return &other == &one; });
}

std::int64_t Scheduler::KeptTexts::bytes() const {
  std::int64_t bytes = 0;
  for (const One& one : texts_) bytes += one.session->kv_bytes();
  return bytes;
}

Scheduler::KeptTexts::Known Scheduler::KeptTexts::find(const Text& text, const std::list<Text>& running) {
  const std::span<const TokenId> sought = text.sought();
  Known known;
  for (One& other : texts_) {
    if (fingerprint_of(other.session->adapters()) != text.job->adapters) continue;
    const std::size_t same = common_length(sought, other.session->tokens());
    if (same > known.common) known = {same, other.session.get(), &other};
  }
  for (const Text& other : running) {
    if (!other.session || other.job->adapters != text.job->adapters) continue;
    const Session::State& s = *other.session->state_;
    const auto read = std::min(s.tokens.size(), static_cast<std::size_t>(s.sequence.tokens()));
    const std::size_t same = common_length(sought, std::span(s.tokens).first(read));
    if (same > known.common) known = {same, other.session.get(), nullptr};
  }
  return known;
}

std::unique_ptr<Session> Scheduler::KeptTexts::take(const Known& known) {
  if (known.kept == nullptr) return std::make_unique<Session>(known.session->fork());
  const auto at = std::ranges::find(texts_, known.kept, [](const One& one) { return &one; });
  // A conversation that went on loses next to nothing. Of another one that begins like it a fork leaves the rest as it is, as long as
  // that takes no other's place.
  const std::size_t lost = known.session->tokens().size() - known.common;
  if (16 * lost <= known.common || (count() >= most_ && lost <= known.common)) {
    std::unique_ptr<Session> session = std::move(at->session);
    texts_.erase(at);
    return session;
  }
  auto session = std::make_unique<Session>(known.session->fork());
  texts_.splice(texts_.begin(), texts_, at);
  return session;
}

}  // namespace bantam::inline v0
