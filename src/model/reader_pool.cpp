// Reading piece by piece.
#include "reader_pool.hpp"

#include <algorithm>
#include <system_error>

namespace bantam::inline v0 {

ReaderPool::ReaderPool(int threads, Reading reading) : reading_(reading) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // Those that are there will do, and so does whoever waits.
  }
}

ReaderPool::~ReaderPool() {
  {
    const Lock lock(mutex_);
    ends_ = true;
  }
  more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::shared_ptr<ReaderPool::Batch> ReaderPool::read(std::span<const SlotPart> parts, std::byte* memory, Haste haste) {
  auto batch = std::make_shared<Batch>();
  batch->parts_ = parts;
  batch->memory_ = memory;
  if (parts.empty()) return batch;
  std::int64_t pieces = 0;
  for (const SlotPart& part : parts) pieces += part.source->pieces();
  {
    const Lock lock(mutex_);
    batch->haste_ = haste;
    queue_.insert(haste == Haste::wanted_now ? std::ranges::find(queue_, Haste::ahead, [](const auto& queued) { return queued->haste_; }) : queue_.end(), batch);
  }
  // An expert has few pieces: nobody is woken for whom there is none.
  for (std::int64_t woken = std::min(pieces, std::ssize(threads_)); woken > 0; --woken) more_.notify_one();
  return batch;
}

/// Leaves what nobody has begun.
void ReaderPool::skip_rest(Batch& batch) noexcept {
  batch.part_ = batch.parts_.size();
  std::erase_if(queue_, [&](const auto& queued) { return queued.get() == &batch; });
}

/// Reads the next piece of a batch that has one, with the lock given back meanwhile.
void ReaderPool::read_piece(Batch& batch, Lock& lock) noexcept {
  const SlotPart part = batch.parts_[batch.part_];
  const std::int64_t piece = batch.piece_++;
  if (batch.piece_ == part.source->pieces()) {
    ++batch.part_;
    batch.piece_ = 0;
    counts_.bytes += part.source->stored_bytes();
  }
  if (batch.part_ == batch.parts_.size()) skip_rest(batch);
  ++batch.at_work_;
  if (at_work_++ == 0) since_ = {};
  lock.unlock();
  std::exception_ptr error;
  try {
    part.source->load_piece(piece, batch.memory_ + part.offset, reading_);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (--at_work_ == 0) counts_.busy_seconds += since_.seconds();
  --batch.at_work_;
  if (error != nullptr) {
    if (batch.error_ == nullptr) batch.error_ = error;
    skip_rest(batch);
  }
  if (batch.is_done()) done_.notify_all();
}

void ReaderPool::work() {
  Lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [&] { return ends_ || !queue_.empty(); });
    if (ends_) return;
    const std::shared_ptr<Batch> batch = queue_.front();
    read_piece(*batch, lock);
  }
}

void ReaderPool::wait(Batch& batch, FunctionRef<void()> between) {
  const Stopwatch watch;
  Lock lock(mutex_);
  if (batch.is_done() && batch.error_ == nullptr) return;
  while (!batch.is_done()) {
    if (batch.part_ < batch.parts_.size()) {
      lock.unlock();
      between();
      lock.lock();
      // Others may have begun the last meanwhile.
      if (batch.part_ < batch.parts_.size()) read_piece(batch, lock);
    } else {
      done_.wait(lock, [&] { return batch.is_done(); });
    }
  }
  counts_.waited_seconds += watch.seconds();
  if (batch.error_ != nullptr) std::rethrow_exception(batch.error_);
}

bool ReaderPool::is_done(const Batch& batch) const {
  const Lock lock(mutex_);
  return batch.is_done();
}

void ReaderPool::cancel(Batch& batch) noexcept {
  Lock lock(mutex_);
  skip_rest(batch);
  done_.wait(lock, [&] { return batch.is_done(); });
}

ReaderPool::Counts ReaderPool::counts() const {
  const Lock lock(mutex_);
  Counts counts = counts_;
  if (at_work_ > 0) counts.busy_seconds += since_.seconds();
  return counts;
}

}  // namespace bantam::inline v0
