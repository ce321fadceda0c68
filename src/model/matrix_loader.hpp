// Loading many matrices at the rate of a drive.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>

#include "bantam/core/memory.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/model/checkpoint.hpp"
#include "reader_pool.hpp"

namespace bantam::inline v0 {

/// Reads matrices side by side: a drive gives its rate to many requests at once, of which an expert alone is one or two, and reads on while
/// others are rearranged.
class MatrixLoader {
 public:
  using Finished = std::function<void(const CheckpointTensor&)>;

  /// total: bytes that all of them have in files. finished: called for each that is in its place.
  MatrixLoader(Reading reading, std::int64_t total, StorageArena& arena, Finished finished)
      : reading_(reading), arena_(arena), finished_(std::move(finished)), readers_(readers_for(total), reading) {}

  /// Begins to read a matrix that has pieces into a place that outlives the loader; waits for others where many have begun. Throws what reading
  /// any of them threw, and cancelled.
  void begin(const CheckpointTensor& tensor, WeightMatrix& place) {
    while (ahead_bytes_ > most_ahead) finish_first();
    const MatrixSource& source = *tensor.source;
    Loading& loading = ahead_.emplace_back(Loading{.tensor = tensor, .place = place, .room = arena_.allocate(source.room_bytes()), .part = {&source, 0}});
    source.will_need(reading_);
    loading.batch = readers_.read({&loading.part, 1}, loading.room.get(), ReaderPool::Haste::ahead);
    ahead_bytes_ += source.stored_bytes();
  }
  /// Waits for all of them. Throws as begin() does.
  void finish() {
    while (!ahead_.empty()) finish_first();
  }

 private:
  struct Loading {
    const CheckpointTensor& tensor;
    WeightMatrix& place;
    std::shared_ptr<std::byte> room;
    SlotPart part;
    std::shared_ptr<ReaderPool::Batch> batch = nullptr;
  };

  /// Enough for a drive's rate while a matrix is waited for that is read by one thread.
  static constexpr std::int64_t most_ahead = std::int64_t{128} << 20;
  /// One for each core, which rearranges, and two that wait for the drive meanwhile; fewer where that is less than a few pieces each.
  static int readers_for(std::int64_t total) noexcept {
    constexpr std::int64_t few_pieces = std::int64_t{4} << 20;
    return static_cast<int>(std::min<std::int64_t>(parallel_threads() + 2, total / few_pieces));
  }

  void finish_first() {
    Loading& first = ahead_.front();
    const MatrixSource& source = *first.tensor.source;
    readers_.wait(*first.batch, [] { check_cancelled(); });
    source.drop();
    first.place = source.in_room(std::move(first.room));
    finished_(first.tensor);
    ahead_bytes_ -= source.stored_bytes();
    ahead_.pop_front();
  }

  const Reading reading_;
  StorageArena& arena_;
  Finished finished_;
  std::deque<Loading> ahead_;
  std::int64_t ahead_bytes_ = 0;
  ReaderPool readers_;  // the last: its threads end before what they write to
};

}  // namespace bantam::inline v0
