// Counting, opening, probing.
#include "server/breaker.hpp"

#include <algorithm>

namespace bantam::server {

std::int64_t Breaker::number_of(Time now) const {
  const auto piece = std::max<std::chrono::nanoseconds>(std::chrono::nanoseconds(options_.window) / pieces, std::chrono::milliseconds(1));
  return now.time_since_epoch() / piece;
}

Breaker::Piece Breaker::sum(Time now) const {
  const std::int64_t number = number_of(now);
  Piece all;
  for (const Piece& piece : window_) {
    if (piece.number < 0 || piece.number + static_cast<std::int64_t>(pieces) <= number) continue;
    all.ended += piece.ended;
    all.failed += piece.failed;
  }
  return all;
}

void Breaker::open(Time now) {
  state_ = State::open;
  opened_ = now;
  window_ = {};
  ++openings_;
}

std::optional<double> Breaker::ask(Time now) {
  if (!is_on()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (state_ == State::closed) return std::nullopt;
  if (state_ == State::open && now >= opened_ + options_.rest) {
    state_ = State::half_open;
    half_opened_ = now;
    probes_ = false;
    went_well_ = 0;
  }
  // A probe whose client went away before it had begun is never heard of.
  const bool lets_in = state_ == State::half_open && (!probes_ || now >= probed_ + options_.rest);
  if (lets_in) {
    probes_ = true;
    probed_ = now;
    return std::nullopt;
  }
  ++refused_;
  const Time from = state_ == State::open ? opened_ : probed_;
  return std::chrono::duration<double>(from + options_.rest - now).count();
}

void Breaker::ended(bool failed, Time came, Time now) {
  if (!is_on()) return;
  const std::lock_guard lock(mutex_);
  if (state_ == State::half_open && came >= half_opened_) {
    probes_ = false;
    if (failed) return open(now);
    if (++went_well_ >= options_.probes) state_ = State::closed;
    return;
  }
  if (state_ != State::closed || came < opened_) return;
  const std::int64_t number = number_of(now);
  Piece& piece = window_[static_cast<std::size_t>(number) % pieces];
  if (piece.number != number) piece = {.number = number};
  ++piece.ended;
  piece.failed += failed ? 1 : 0;
  const Piece all = sum(now);
  if (all.ended >= options_.least && static_cast<double>(all.failed) > options_.share * static_cast<double>(all.ended)) open(now);
}

Breaker::Counts Breaker::counts(Time now) {
  const std::lock_guard lock(mutex_);
  const Piece all = sum(now);
  return {.state = state_,
          .opened = openings_,
          .refused = refused_,
          .share = all.ended == 0 ? 0 : static_cast<double>(all.failed) / static_cast<double>(all.ended)};
}

}  // namespace bantam::server
