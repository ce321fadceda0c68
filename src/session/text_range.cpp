// Generation, one token a step: sample, decode, hold back what may be the beginning of a stop text.
#include <algorithm>
#include <chrono>

#include "state.hpp"

namespace bantam::inline v0 {

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
    : session_(&session), options_(std::move(options)), stream_(session.model().tokenizer()) {
  for (const std::string& stop : options_.stop) {
    if (stop.empty()) fail(Errc::invalid_argument, "stop: expected a text of at least one character, found an empty one");
  }
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

void TextRange::step() {
  const auto start = std::chrono::steady_clock::now();
  Session::State& s = *session_->state_;
  const auto finished = [&](Finish finish) {
    finish_ = finish;
    ready_ += stream_.finish();
    hold_back_stop_prefix();
    piece_ += ready_;
    ready_.clear();
  };
  const auto count = static_cast<std::int64_t>(tokens_.size());
  if (count == options_.max_tokens || static_cast<std::int64_t>(s.tokens.size()) >= s.context) return finished(Finish::length);
  s.catch_up();
  const Tokenizer& tokenizer = s.model.tokenizer();
  const auto vocab = std::min<std::size_t>(s.logits.size(), static_cast<std::size_t>(tokenizer.vocab_size()));
  const TokenId id = s.sampler->sample(std::span<const float>(s.logits).first(vocab));
  s.sampler->accept(id);
  if (tokenizer.ends_generation(id) && !options_.ignore_end) return finished(Finish::stop);
  s.tokens.push_back(id);
  s.logits.clear();
  tokens_.push_back(id);
  ready_ += stream_.push(id);
  hold_back_stop_prefix();
  stats_.generated_tokens = static_cast<std::int64_t>(tokens_.size());
  stats_.generate_ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  stats_.tokens_per_second = stats_.generate_ms > 0 ? 1000.0 * static_cast<double>(stats_.generated_tokens) / stats_.generate_ms : 0;
}

/// Moves from ready_ to piece_ what can no longer become a stop text; ends the generation at one.
void TextRange::hold_back_stop_prefix() {
  std::size_t cut = std::string::npos;
  std::size_t held = 0;
  for (const std::string& stop : options_.stop) {
    cut = std::min(cut, ready_.find(stop));
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
