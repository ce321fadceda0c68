// Slots for layers, and caches of experts.
#include "bantam/model/streamed_blocks.hpp"

#include <algorithm>
#include <atomic>

#include "bantam/core/memory.hpp"
#include "bantam/model/roles.hpp"
#include "reader_pool.hpp"

namespace bantam::inline v0 {

namespace {

/// Requests under way at once: NVMe drives want four to eight.
constexpr int reader_threads = 4;

/// Memory that begins at a multiple of a file's block: what reads around the page cache ask for.
std::shared_ptr<std::byte> allocate_blocks(std::size_t bytes) {
  constexpr std::size_t block = MappedFile::block_bytes;
  // Large ones begin at a huge page; an allocator that was given may do otherwise.
  const std::shared_ptr<std::byte> all = allocate_storage(bytes);
  if (reinterpret_cast<std::uintptr_t>(all.get()) % block == 0) return all;
  const std::shared_ptr<std::byte> more = allocate_storage(bytes + block);
  return {more, more.get() + (block - reinterpret_cast<std::uintptr_t>(more.get()) % block) % block};
}

/// Matrices that come and go together: of a layer, or of an expert.
struct Unit {
  std::vector<TensorId> ids;
  std::vector<SlotPart> parts;
  std::vector<const MappedFile*> files;
  std::size_t bytes = 0;

  void add(const CheckpointTensor& tensor) {
    ids.emplace_back(tensor);
    parts.push_back({tensor.source.get(), bytes});
    bytes += static_cast<std::size_t>(detail::room_in_slot(tensor));
    for (const TensorPart& part : tensor.source->parts()) {
      const MappedFile* file = part.entry->file.get();
      if (std::ranges::find(files, file) == files.end()) files.push_back(file);
    }
  }
  /// The matrices that are in `memory`, into their places; without memory, none.
  void place(LayerWeights& layer, const std::shared_ptr<const std::byte>& memory) const {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const MatrixSource& source = *parts[i].source;
      *matrix_of(layer, ids[i]) = memory != nullptr ? source.in_room({memory, memory.get() + parts[i].offset})
                                                    : WeightMatrix(source.format(), source.rows(), source.columns(), nullptr, source.order());
    }
  }
  /// What conversion has left behind is given back.
  void drop() const noexcept {
    for (const SlotPart& part : parts) part.source->drop();
  }
};

/// Of an expert that is in a cache.
struct ExpertSlot {
  std::int64_t expert = -1;
  std::int64_t used = 0;  ///< when, in calls
};

struct Layer {
  const LayerWeights* resident = nullptr;  ///< all of it; null: some of it is not there
  LayerWeights own = {};                   ///< with what is there
  Unit unit = {};
  std::vector<Unit> experts = {};
  std::vector<ExpertSlot> cached = {};
  std::vector<std::int64_t> slot_of = {};  ///< of each expert; -1: it is not there
  std::shared_ptr<std::byte> cache = nullptr;
  std::size_t expert_bytes = 0;            ///< of a slot in the cache
  [[nodiscard]] bool streams() const noexcept { return !unit.parts.empty(); }
};

struct LayerSlot {
  std::shared_ptr<std::byte> memory;
  std::int64_t layer = -1;
  std::shared_ptr<ReaderPool::Batch> batch = nullptr;
  bool used = false;  ///< somebody has a handle
};

}  // namespace

struct StreamedBlocks::Store {
  std::vector<Layer> layers;
  std::array<LayerSlot, 2> slots;
  std::vector<std::int64_t> order;  ///< layers that stream
  std::int64_t last = -1;           ///< layer that was acquired
  std::int64_t calls = 0;
  std::int64_t resident_bytes = 0;
  std::atomic<std::int64_t> hits{0}, misses{0};
  ReaderPool readers{reader_threads};    // the last: its threads end before anything else does

  LayerSlot* holder_of(std::int64_t layer) {
    const auto found = std::ranges::find(slots, layer, &LayerSlot::layer);
    return found == slots.end() ? nullptr : &*found;
  }
  /// The next that stream, from behind the last on, after the last of the model again with the first.
  [[nodiscard]] std::array<std::int64_t, 2> wanted() const {
    std::array<std::int64_t, 2> next{-1, -1};
    auto at = std::ranges::upper_bound(order, last) - order.begin();
    for (std::int64_t& layer : next) layer = order[static_cast<std::size_t>(at++ % std::ssize(order))];
    return next;
  }
  void begin(LayerSlot& slot, std::int64_t layer, ReaderPool::Haste haste) {
    forget(slot);
    slot.batch = readers.read(layers[static_cast<std::size_t>(layer)].unit.parts, slot.memory.get(), haste);
    slot.layer = layer;
  }
  void forget(LayerSlot& slot) noexcept {
    if (slot.batch != nullptr) readers.cancel(*slot.batch);
    slot.batch = nullptr;
    slot.layer = -1;
  }
  /// Reads what comes next into slots that are free.
  void read_ahead() {
    if (order.empty()) return;
    const auto next = wanted();
    for (const std::int64_t layer : next) {
      if (holder_of(layer) != nullptr) continue;
      const auto is_free = [&](const LayerSlot& slot) { return !slot.used && std::ranges::find(next, slot.layer) == next.end(); };
      const auto slot = std::ranges::find_if(slots, is_free);
      if (slot == slots.end()) return;
      begin(*slot, layer, ReaderPool::Haste::ahead);
    }
  }
  /// Waits for a unit, and makes sure that it is of the file that was opened.
  void finish(const Unit& unit, ReaderPool::Batch& batch) {
    try {
      readers.wait(batch);
      for (const MappedFile* file : unit.files) file->check_unchanged();
    } catch (...) {
      unit.drop();
      throw;
    }
    unit.drop();
  }
  /// Waits for what was read ahead. False: it failed, and the slot is empty.
  [[nodiscard]] bool is_there(const Unit& unit, LayerSlot& slot) {
    try {
      finish(unit, *slot.batch);
      return true;
    } catch (const std::exception&) {
      forget(slot);
      return false;
    }
  }
  void release(LayerSlot& slot) noexcept {
    Layer& layer = layers[static_cast<std::size_t>(slot.layer)];
    layer.unit.place(layer.own, nullptr);
    slot.used = false;
    try {
      read_ahead();
    } catch (...) {  // no room for a list: it is read when it is wanted
    }
  }
};

StreamedBlocks::StreamedBlocks(const Checkpoint& checkpoint, const ModelWeights& weights, const Residency& residency) : store_(std::make_unique<Store>()) {
  Store& s = *store_;
  s.resident_bytes = residency.resident_bytes();
  s.layers.resize(residency.layers.size());
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (residency.keeps(tensor)) continue;
    Layer& layer = s.layers[static_cast<std::size_t>(tensor.layer)];
    const auto expert = static_cast<std::size_t>(std::max<std::int64_t>(0, tensor.expert));
    if (tensor.expert >= 0 && expert >= layer.experts.size()) layer.experts.resize(expert + 1);
    (tensor.expert >= 0 ? layer.experts[expert] : layer.unit).add(tensor);
  }
  for (std::size_t i = 0; i < s.layers.size(); ++i) {
    Layer& layer = s.layers[i];
    if (layer.streams()) s.order.push_back(static_cast<std::int64_t>(i));
    if (!layer.streams() && layer.experts.empty()) {
      layer.resident = &weights.layers[i];
      continue;
    }
    layer.own = weights.layers[i];
    if (layer.experts.empty()) continue;
    layer.slot_of.assign(layer.experts.size(), -1);
    layer.cached.resize(static_cast<std::size_t>(residency.layers[i].cached_experts));
    layer.expert_bytes = static_cast<std::size_t>(residency.layers[i].expert_slot_bytes);
    layer.cache = allocate_blocks(layer.cached.size() * layer.expert_bytes);
  }
  if (s.order.empty()) return;
  for (LayerSlot& slot : s.slots) slot.memory = allocate_blocks(static_cast<std::size_t>(residency.slot_bytes));
  s.read_ahead();
}

StreamedBlocks::~StreamedBlocks() {
  if (store_->readers.is_forked()) (void)store_.release();
}

std::shared_ptr<const LayerWeights> StreamedBlocks::acquire(std::int64_t index) const {
  Store& s = *store_;
  Layer& layer = s.layers[static_cast<std::size_t>(index)];
  const LayerWeights* weights = layer.resident != nullptr ? layer.resident : &layer.own;
  s.last = index;
  if (!layer.streams()) {
    s.read_ahead();
    return {std::shared_ptr<const void>(), weights};
  }
  LayerSlot* slot = s.holder_of(index);
  if (slot != nullptr && slot->used) fail(Errc::invalid_argument, "blocks: layer ", index, ": expected one handle of it at a time");
  // What went wrong while it was read ahead may be over by now.
  if (slot != nullptr && !s.is_there(layer.unit, *slot)) slot = nullptr;
  if (slot == nullptr) {
    const auto free = std::ranges::find(s.slots, false, &LayerSlot::used);
    if (free == s.slots.end()) fail(Errc::invalid_argument, "blocks: expected at most ", s.slots.size(), " layers in use at a time");
    slot = &*free;
    s.begin(*slot, index, ReaderPool::Haste::wanted_now);
    try {
      s.finish(layer.unit, *slot->batch);
    } catch (...) {
      s.forget(*slot);
      throw;
    }
  }
  layer.unit.place(layer.own, slot->memory);
  slot->used = true;
  s.read_ahead();
  return {weights, [&s, slot](const LayerWeights*) { s.release(*slot); }};
}

std::size_t StreamedBlocks::acquire_experts(std::int64_t index, std::span<const std::int64_t> chosen) const {
  Store& s = *store_;
  Layer& layer = s.layers[static_cast<std::size_t>(index)];
  if (layer.experts.empty()) return chosen.size();
  chosen = chosen.first(std::min(chosen.size(), layer.cached.size()));
  const std::int64_t now = ++s.calls;
  for (const std::int64_t expert : chosen) {
    const std::int64_t slot = layer.slot_of[static_cast<std::size_t>(expert)];
    if (slot >= 0) layer.cached[static_cast<std::size_t>(slot)].used = now;
  }
  struct Missing {
    ExpertSlot* slot;
    std::shared_ptr<ReaderPool::Batch> batch;
  };
  std::vector<Missing> missing;
  missing.reserve(chosen.size());
  std::exception_ptr error;
  for (const std::int64_t expert : chosen) {
    if (layer.slot_of[static_cast<std::size_t>(expert)] >= 0) continue;
    // Of this call's own experts there are never more than slots.
    ExpertSlot& slot = *std::ranges::min_element(layer.cached, {}, &ExpertSlot::used);
    if (slot.expert >= 0) {
      layer.experts[static_cast<std::size_t>(slot.expert)].place(layer.own, nullptr);
      layer.slot_of[static_cast<std::size_t>(slot.expert)] = -1;
    }
    slot = {};
    const std::int64_t number = &slot - layer.cached.data();
    std::byte* const memory = layer.cache.get() + static_cast<std::size_t>(number) * layer.expert_bytes;
    try {
      missing.push_back({&slot, s.readers.read(layer.experts[static_cast<std::size_t>(expert)].parts, memory, ReaderPool::Haste::wanted_now)});
    } catch (...) {
      error = std::current_exception();
      break;
    }
    slot = {expert, now};
    layer.slot_of[static_cast<std::size_t>(expert)] = number;
  }
  s.hits += std::ssize(chosen) - std::ssize(missing);
  s.misses += std::ssize(missing);
  for (const Missing& one : missing) {
    const auto expert = static_cast<std::size_t>(one.slot->expert);
    try {
      s.finish(layer.experts[expert], *one.batch);
      const std::byte* const at = layer.cache.get() + static_cast<std::size_t>(layer.slot_of[expert]) * layer.expert_bytes;
      layer.experts[expert].place(layer.own, {layer.cache, at});
    } catch (...) {
      if (error == nullptr) error = std::current_exception();
      layer.slot_of[expert] = -1;
      *one.slot = {};
    }
  }
  if (error != nullptr) std::rethrow_exception(error);
  return chosen.size();
}

StreamStats StreamedBlocks::stats() const {
  // Somebody may have been in the middle of counting.
  if (store_->readers.is_forked()) return {.resident_bytes = store_->resident_bytes};
  const ReaderPool::Counts counts = store_->readers.counts();
  return {.resident_bytes = store_->resident_bytes, .streamed_bytes = counts.bytes, .expert_hits = store_->hits, .expert_misses = store_->misses,
          .read_seconds = counts.busy_seconds, .waited_seconds = counts.waited_seconds};
}

}  // namespace bantam::inline v0
