// What a model remembers of a sequence: the states of its blocks, under one contract.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "bantam/core/error.hpp"
#include "bantam/core/team.hpp"

namespace bantam::inline v0::nn {

/// Takes what a state saves, front to back in pieces.
using StateSink = FunctionRef<void(std::span<const std::byte>)>;
/// Hands out the next bytes of what was saved, or throws: `what` names them in the message. They live until the next call.
using StateSource = FunctionRef<std::span<const std::byte>(std::uint64_t size_bytes, std::string_view what)>;

/// What blocks of one kind remember of the first tokens() of a sequence. For one thread at a time.
class BlockState {
 public:
  virtual ~BlockState() = default;

  [[nodiscard]] virtual std::int64_t tokens() const noexcept = 0;
  /// Makes room for `count` tokens and counts them as there; a pass fills it in. Throws out_of_memory, and what a store of
  /// pages throws, leaving the state as it was.
  virtual void extend(std::int64_t count) = 0;
  /// Forgets everything from `tokens` on. What cannot be cut there, as a recurrent state, goes back to its last checkpoint
  /// before, which may be the sequence's beginning: tokens() tells, and what it lacks is to be read again. Nothing where `tokens`
  /// is not below tokens().
  virtual void truncate(std::int64_t tokens) noexcept = 0;
  /// Whoever truncates to where it is now, however much comes in between, gets there, until this is said anew or more is cut off. For states
  /// that can be cut anywhere there is nothing to do.
  virtual void keep_checkpoint() noexcept {}
  /// The same past; memory is shared until one of the two writes.
  [[nodiscard]] virtual std::unique_ptr<BlockState> fork() const = 0;
  virtual void save(StateSink sink) const = 0;
  /// Becomes what was saved with so many tokens. Takes from `in` what save() wrote and nothing else, and throws what it throws,
  /// corrupt and out_of_memory, leaving the state as it was.
  virtual void restore(std::int64_t tokens, StateSource in) = 0;
  /// In memory; what is shared counts in full.
  [[nodiscard]] virtual std::int64_t bytes() const noexcept = 0;
  /// What bytes() grows by with each token, on average.
  [[nodiscard]] virtual std::int64_t bytes_per_token() const noexcept = 0;
};

/// The states of all blocks, which are always at the same token: the same contract, of the sequence as a whole. Whoever holds one
/// keeps the tokens beside it and reads again what truncate() took more than it was asked to.
class SequenceState {
 public:
  /// At least one, all of them empty.
  explicit SequenceState(std::vector<std::unique_ptr<BlockState>> blocks) : blocks_(std::move(blocks)) {
    BANTAM_ASSERT(!blocks_.empty());
  }

  [[nodiscard]] std::int64_t tokens() const noexcept { return blocks_.front()->tokens(); }
  void extend(std::int64_t count);
  void truncate(std::int64_t tokens) noexcept;
  void keep_checkpoint() noexcept {
    for (const auto& block : blocks_) block->keep_checkpoint();
  }
  [[nodiscard]] SequenceState fork() const;
  void save(StateSink sink) const;
  void restore(std::int64_t tokens, StateSource in);
  [[nodiscard]] std::int64_t bytes() const noexcept { return sum(&BlockState::bytes); }
  [[nodiscard]] std::int64_t bytes_per_token() const noexcept { return sum(&BlockState::bytes_per_token); }

  /// The state of a kind of block, for the pass; null where the model has no such blocks.
  template <class Kind>
  [[nodiscard]] Kind* find() noexcept {
    for (const auto& block : blocks_) {
      if (auto* found = dynamic_cast<Kind*>(block.get())) return found;
    }
    return nullptr;
  }

 private:
  [[nodiscard]] std::int64_t sum(std::int64_t (BlockState::*of_block)() const noexcept) const noexcept {
    std::int64_t total = 0;
    for (const auto& block : blocks_) total += ((*block).*of_block)();
    return total;
  }

  std::vector<std::unique_ptr<BlockState>> blocks_;
};

inline void SequenceState::extend(std::int64_t count) {
  const std::int64_t before = tokens();
  try {
    for (const auto& block : blocks_) block->extend(count);
  } catch (...) {
    truncate(before);
    throw;
  }
}

inline void SequenceState::truncate(std::int64_t tokens) noexcept {
  // Whoever goes back farther takes the others along, and they may go back farther still.
  std::int64_t before = 0;
  do {
    before = tokens;
    for (const auto& block : blocks_) {
      block->truncate(tokens);
      tokens = std::min(tokens, block->tokens());
    }
  } while (tokens < before);
}

inline SequenceState SequenceState::fork() const {
  std::vector<std::unique_ptr<BlockState>> blocks;
  for (const auto& block : blocks_) blocks.push_back(block->fork());
  return SequenceState(std::move(blocks));
}

inline void SequenceState::save(StateSink sink) const {
  for (const auto& block : blocks_) block->save(sink);
}

inline void SequenceState::restore(std::int64_t tokens, StateSource in) {
  SequenceState restored = fork();
  for (const auto& block : restored.blocks_) block->restore(tokens, in);
  *this = std::move(restored);
}

}  // namespace bantam::inline v0::nn
