// Ended texts that are kept, for prompts that begin like them.
#pragma once

#include <list>

#include "scheduled_text.hpp"

namespace bantam::inline v0 {

/// What was wanted last is in front; what was wanted longest ago goes where there are too many.
class Scheduler::KeptTexts {
 public:
  explicit KeptTexts(int most) : most_(most) {}

  struct One {
    std::unique_ptr<Session> session;
    int place;  ///< that it had; -1: none

    /// How many tokens it has.
    std::int64_t save(TextSink sink) const;
  };
  using Iterator = std::list<One>::iterator;

  /// Keeps what was read. Nothing where none was.
  void keep(std::unique_ptr<Session> session, int place);
  /// The last that had that place, or null.
  [[nodiscard]] One* of_place(int place);
  /// By how long ago it was wanted, or null.
  [[nodiscard]] One* at(std::size_t number);
  void forget(const One& one);
  void clear() noexcept { texts_.clear(); }

  [[nodiscard]] bool empty() const noexcept { return texts_.empty(); }
  [[nodiscard]] int count() const noexcept { return static_cast<int>(texts_.size()); }
  [[nodiscard]] std::int64_t bytes() const;

  /// What of a prompt has been read before, at most, and by whom.
  struct Known {
    std::size_t common = 0;
    const Session* session = nullptr;
    One* kept = nullptr;  ///< where it is kept; null for one that runs
  };
  /// Among these texts and those that run.
  [[nodiscard]] Known find(const Text& text, const std::list<Text>& running);
  /// A session that holds what was found: the kept one, or a fork that leaves it as it is. Something has been found.
  [[nodiscard]] std::unique_ptr<Session> take(const Known& known);

 private:
  int most_;
  std::list<One> texts_;
};

/// How much of two sequences is the same from the beginning.
[[nodiscard]] std::size_t common_length(std::span<const TokenId> a, std::span<const TokenId> b);

}  // namespace bantam::inline v0
