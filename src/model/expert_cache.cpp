// Reading experts when tokens were routed to them.
#include "expert_cache.hpp"

namespace bantam::inline v0 {

void ExpertCache::add(const CheckpointTensor& tensor) {
  const auto expert = static_cast<std::size_t>(tensor.expert);
  if (expert >= experts_.size()) experts_.resize(expert + 1);
  experts_[expert].add(tensor);
}

void ExpertCache::allocate(std::int64_t slots, std::size_t slot_bytes) {
  slot_bytes_ = slot_bytes;
  slots_.resize(static_cast<std::size_t>(slots));
  slot_of_.assign(experts_.size(), -1);
  cold_.assign(experts_.size(), 1);
  memory_ = nn::allocate_blocks(slots_.size() * slot_bytes);
}

void ExpertCache::note(std::int64_t expert, std::int64_t slot) noexcept {
  slot_of_[static_cast<std::size_t>(expert)] = slot;
  cold_[static_cast<std::size_t>(expert)] = slot < 0 ? 1 : 0;
}

ExpertCache::Slot* ExpertCache::holder_of(std::int64_t expert) noexcept {
  const std::int64_t slot = slot_of_[static_cast<std::size_t>(expert)];
  return slot < 0 ? nullptr : &slots_[static_cast<std::size_t>(slot)];
}

/// Those that are there to the front. Returns how many.
std::size_t ExpertCache::sort(std::span<std::int64_t> wanted) noexcept {
  std::size_t there = 0;
  for (std::int64_t& expert : wanted) {
    Slot* slot = holder_of(expert);
    if (slot == nullptr) continue;
    slot->used = calls_;
    if (slot->batch == nullptr) std::swap(expert, wanted[there++]);
  }
  return there;
}

/// Reads an expert to the place of another.
void ExpertCache::begin(ReaderPool& readers, LayerWeights& layer, Slot& slot, std::int64_t expert) {
  if (slot.expert >= 0) {
    experts_[static_cast<std::size_t>(slot.expert)].place(layer, nullptr);
    note(slot.expert, -1);
  }
  slot = {};
  slot.batch = readers.read(experts_[static_cast<std::size_t>(expert)].parts(), memory_of(slot), ReaderPool::Haste::wanted_now);
  slot.expert = expert;
  slot.used = slot.begun = calls_;
  slot.is_new = true;
  note(expert, &slot - slots_.data());
}

/// Waits until it is there. What went wrong since an earlier call may be over by now: the slot is empty then, and it is read again.
void ExpertCache::settle(ReaderPool& readers, LayerWeights& layer, Slot& slot) {
  const auto expert = static_cast<std::size_t>(slot.expert);
  const bool is_of_this_call = slot.begun == calls_;
  try {
    experts_[expert].finish(readers, *slot.batch);
    experts_[expert].place(layer, {memory_, memory_of(slot)});
    slot.batch = nullptr;
  } catch (...) {
    note(slot.expert, -1);
    slot = {};
    if (is_of_this_call) throw;
  }
}

std::size_t ExpertCache::acquire(ReaderPool& readers, LayerWeights& layer, std::span<std::int64_t> wanted, ExpertCounts& counts) {
  ++calls_;
  for (;;) {
    for (Slot& slot : slots_) {
      if (slot.batch != nullptr && readers.is_done(*slot.batch)) settle(readers, layer, slot);
    }
    std::size_t there = sort(wanted);
    // Whatever this call wants and has stays; what it does not want goes, the longest unused first.
    const auto is_free = [&](const Slot& slot) { return slot.batch == nullptr && slot.used < calls_; };
    for (const std::int64_t expert : wanted.subspan(there)) {
      if (holder_of(expert) != nullptr) continue;
      Slot* free = nullptr;
      for (Slot& slot : slots_) {
        if (is_free(slot) && (free == nullptr || slot.used < free->used)) free = &slot;
      }
      if (free == nullptr) {
        // Half of them now: the others can be run while these slots are read into.
        there = std::min(there, std::max<std::size_t>(1, slots_.size() / 2));
        break;
      }
      begin(readers, layer, *free, expert);
      ++counts.misses;
    }
    for (const std::int64_t expert : wanted.first(there)) {
      Slot& slot = *holder_of(expert);
      if (!slot.is_new) ++counts.hits;
      slot.is_new = false;
    }
    if (there > 0) return there;
    // The next, or where a pass failed before, whatever is in the way.
    const auto is_read = [](const Slot& slot) { return slot.batch != nullptr; };
    Slot* const first = holder_of(wanted[0]);
    settle(readers, layer, first != nullptr ? *first : *std::ranges::find_if(slots_, is_read));
  }
}

}  // namespace bantam::inline v0
