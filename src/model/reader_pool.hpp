// Threads that read what is in pieces into memory.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "bantam/core/stopwatch.hpp"
#include "bantam/core/team.hpp"
#include "bantam/model/piece_source.hpp"

namespace bantam::inline v0 {

/// A matrix, or what else is read, and where it goes in a slot of memory.
struct SlotPart {
  const PieceSource* source = nullptr;
  std::size_t offset = 0;
};

/// A few threads that read piece by piece, whoever is free the next piece: requests enough to keep a drive busy. The thread that
/// waits for a batch helps with it, so that it ends without any others, too.
class ReaderPool {
 public:
  enum class Haste : std::uint8_t { wanted_now, ahead };
  /// Parts that are asked for together.
  class Batch {
    friend class ReaderPool;
    std::span<const SlotPart> parts_;
    std::byte* memory_ = nullptr;
    std::size_t part_ = 0;    ///< of the piece that comes next
    std::int64_t piece_ = 0;  ///< its number there
    int at_work_ = 0;         ///< pieces that are being read
    Haste haste_ = Haste::ahead;
    std::exception_ptr error_;

    [[nodiscard]] bool is_done() const noexcept { return part_ == parts_.size() && at_work_ == 0; }
  };
  struct Counts {
    std::int64_t bytes = 0;      ///< of files, read
    double busy_seconds = 0;     ///< somebody was reading
    double waited_seconds = 0;   ///< that wait() took
  };

  /// reading: how files are read, where there is a choice.
  ReaderPool(int threads, Reading reading);
  /// Waits for what is being read; what nobody has begun is left.
  ~ReaderPool();
  ReaderPool(const ReaderPool&) = delete;
  ReaderPool& operator=(const ReaderPool&) = delete;

  /// Reads parts, which outlive the batch, into memory that does. What is wanted now comes before what is read ahead, and otherwise one after the other.
  [[nodiscard]] std::shared_ptr<Batch> read(std::span<const SlotPart> parts, std::byte* memory, Haste haste);
  /// Returns when all of it is there. Calls `between` before each piece that this thread reads; what it throws leaves the batch to itself.
  /// Throws the first of what reading threw.
  void wait(Batch& batch, FunctionRef<void()> between = [] {});
  /// Returns when nobody writes to its memory any more; what was not begun is left.
  void cancel(Batch& batch) noexcept;
  /// Whether wait() would return, or throw, at once.
  [[nodiscard]] bool is_done(const Batch& batch) const;
  [[nodiscard]] Counts counts() const;
  /// Whether this is a copy in a child of the process that made it: its threads are not there, and it may neither be used nor ended.
  [[nodiscard]] bool is_forked() const noexcept { return process_ != detail::process_number(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  void work();
  void read_piece(Batch& batch, Lock& lock) noexcept;
  void skip_rest(Batch& batch) noexcept;

  const Reading reading_;
  const std::uint32_t process_ = detail::process_number();
  mutable std::mutex mutex_;
  std::condition_variable more_, done_;
  std::deque<std::shared_ptr<Batch>> queue_;  ///< those with pieces that nobody has begun
  int at_work_ = 0;
  bool ends_ = false;
  Stopwatch since_;  ///< when the first of those at work began
  Counts counts_;
  std::vector<std::thread> threads_;
};

}  // namespace bantam::inline v0
