// Guesses of the model's own layer for them (multi-token prediction).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bantam/model/engine.hpp"

namespace bantam::inline v0 {

/// What the layer that drafts has read of a session: pairs of a token's state and the token after it. Nothing but speed hangs on it, so
/// pairs may be missing: what a batch read, or what was cut off between them.
class OwnGuesses {
 public:
  /// Beside a session's state, which was made with the same `kv` and `memory`.
  OwnGuesses(Engine engine, std::string_view kv, nn::SequenceState& beside, const StateMemory& memory)
      : engine_(std::move(engine)), state_(engine_.new_draft_state(kv, beside, memory)) {}
  /// The same past.
  [[nodiscard]] OwnGuesses fork(Engine engine) const;

  /// Takes the states, (count, dim), of tokens from `first` on, which were read just now; those that it has are left out.
  void add(std::int64_t first, std::span<const float> states);
  /// Forgets whatever a token from `count` on has a part in.
  void truncate(std::int64_t count);
  /// Has the layer read the pairs whose second token is known. `tokens`: all of the session.
  void catch_up(std::span<const TokenId> tokens);
  /// The `count` tokens that the layer finds most probable after `tokens`; none where the state before the last is missing.
  [[nodiscard]] std::vector<TokenId> guess(std::span<const TokenId> tokens, int count);

  /// How many states wait for catch_up().
  [[nodiscard]] std::int64_t waiting() const noexcept { return std::ssize(waiting_) / dim(); }
  /// Keys and values of the pairs.
  [[nodiscard]] nn::SequenceState& state() noexcept { return state_; }
  /// Of a guess, as far as was seen.
  [[nodiscard]] double seconds() const noexcept { return seconds_; }

 private:
  OwnGuesses(Engine engine, nn::SequenceState state) : engine_(std::move(engine)), state_(std::move(state)) {}
  [[nodiscard]] std::int64_t dim() const noexcept { return engine_.model().config().dim; }

  Engine engine_;
  nn::SequenceState state_;           ///< of pairs_
  std::vector<std::int64_t> pairs_;   ///< the place of the first token of each, ascending
  std::int64_t first_ = 0;            ///< the place of the first token whose state waits, or would wait
  std::vector<float> waiting_;        ///< (tokens, dim)
  std::vector<float> logits_, next_;  ///< what the layer made of the last pair
  double seconds_ = 0;
};

}  // namespace bantam::inline v0
