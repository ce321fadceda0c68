// Slots for layers, and caches of experts.
#include "bantam/model/streamed_blocks.hpp"

#include <time.h>

#include <algorithm>
#include <map>

#include "bantam/io/disk.hpp"
#include "expert_cache.hpp"

namespace bantam::inline v0 {

namespace {

struct Layer {
  const LayerWeights* resident = nullptr;  ///< all of it; null: some of it is not there
  LayerWeights own = {};                   ///< with what is there
  StreamUnit unit = {};
  ExpertCache experts = {};
  [[nodiscard]] bool streams() const noexcept { return !unit.empty(); }
};

/// Of the file that has the first of what may be read.
DiskReading disk_of(const Checkpoint& checkpoint) {
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (detail::can_stream(tensor) && !tensor.source->parts().empty()) return measure_disk(*tensor.source->parts()[0].entry->file);
  }
  return {};
}

Reading reading_by(const DiskReading& disk) { return disk.around_cache ? Reading::direct : Reading::buffered; }

struct LayerSlot {
  std::shared_ptr<std::byte> memory;
  std::int64_t layer = -1;
  std::shared_ptr<ReaderPool::Batch> batch = nullptr;
  bool used = false;  ///< somebody has a handle
};

}  // namespace

struct StreamedBlocks::Store {
  explicit Store(const DiskReading& disk) : readers(disk.readers, reading_by(disk)) {}

  std::vector<Layer> layers;
  std::vector<std::pair<Role, const MatrixSource*>> tables;  ///< that are looked up in the file
  std::array<LayerSlot, 2> slots;
  std::vector<std::int64_t> order;  ///< layers that stream
  std::int64_t last = -1;           ///< layer that was acquired
  std::int64_t resident_bytes = 0;
  ExpertCounts experts;
  ReaderPool readers;  // the last: its threads end before anything else does

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
    slot.batch = readers.read(layers[static_cast<std::size_t>(layer)].unit.parts(), slot.memory.get(), haste);
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
  /// Waits for what was read ahead. False: it failed, and the slot is empty.
  [[nodiscard]] bool is_there(const StreamUnit& unit, LayerSlot& slot) {
    try {
      unit.finish(readers, *slot.batch);
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

StreamedBlocks::StreamedBlocks(const Checkpoint& checkpoint, const ModelWeights& weights, const Residency& residency)
    : store_(std::make_unique<Store>(residency.is_bounded() ? disk_of(checkpoint) : DiskReading{.readers = 0})) {
  Store& s = *store_;
  s.resident_bytes = residency.resident_bytes();
  s.layers.resize(residency.layers.size());
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (residency.keeps(tensor)) continue;
    if (tensor.layer < 0) {
      s.tables.emplace_back(tensor.role, tensor.source.get());
      continue;
    }
    Layer& layer = s.layers[static_cast<std::size_t>(tensor.layer)];
    if (tensor.expert >= 0) {
      layer.experts.add(tensor);
    } else {
      layer.unit.add(tensor);
    }
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
    layer.experts.allocate(residency.layers[i].cached_experts, static_cast<std::size_t>(residency.layers[i].expert_slot_bytes));
  }
  if (s.order.empty()) return;
  for (LayerSlot& slot : s.slots) slot.memory = nn::allocate_blocks(static_cast<std::size_t>(residency.slot_bytes));
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
      layer.unit.finish(s.readers, *slot->batch);
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

std::size_t StreamedBlocks::acquire_experts(std::int64_t index, std::span<std::int64_t> wanted) const {
  Store& s = *store_;
  Layer& layer = s.layers[static_cast<std::size_t>(index)];
  return layer.experts.empty() ? wanted.size() : layer.experts.acquire(s.readers, layer.own, wanted, s.experts);
}

std::span<const std::uint8_t> StreamedBlocks::cold_experts(std::int64_t index) const noexcept {
  return store_->layers[static_cast<std::size_t>(index)].experts.cold();
}

const MatrixSource* StreamedBlocks::table(Role role) const {
  const auto found = std::ranges::find(store_->tables, role, &std::pair<Role, const MatrixSource*>::first);
  return found == store_->tables.end() ? nullptr : found->second;
}

namespace {

/// That all threads of the process have had.
double processor_seconds() noexcept {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

StreamingRate measure_streaming(const Checkpoint& checkpoint) {
  const DiskReading disk = disk_of(checkpoint);
  if (disk.gb_s == 0) return {};
  ReaderPool readers(disk.readers, reading_by(disk));
  std::shared_ptr<std::byte> room;
  std::size_t room_bytes = 0;
  const auto seconds_of = [&](const StreamUnit& unit) {
    if (unit.bytes() > room_bytes) {
      room = nn::allocate_blocks(room_bytes = unit.bytes());
      std::fill_n(room.get(), unit.bytes(), std::byte{});  // as slots are, once they were used
    }
    const Stopwatch watch;
    unit.finish(readers, *readers.read(unit.parts(), room.get(), ReaderPool::Haste::wanted_now));
    return watch.seconds();
  };
  // Here and there, so that no cache of the drive's has all of them.
  constexpr std::size_t most = std::size_t{64} << 20, step = 7;
  std::vector<const CheckpointTensor*> tensors;
  std::map<std::pair<std::int64_t, std::int64_t>, StreamUnit> experts;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (!detail::can_stream(tensor)) continue;
    if (tensor.source->room_bytes() <= most / 2) tensors.push_back(&tensor);
    if (tensor.expert >= 0) experts[{tensor.layer, tensor.expert}].add(tensor);
  }
  StreamUnit unit;
  std::int64_t bytes = 0;
  for (std::size_t i = 0, at = 0; i < tensors.size() && unit.bytes() < most / 2; ++i, at += step) {
    unit.add(*tensors[at % tensors.size()]);
    bytes += tensors[at % tensors.size()]->stored_bytes();
  }
  if (unit.empty()) return {.gb_s = disk.gb_s};
  const double before = processor_seconds(), gigabytes = 1e-9 * static_cast<double>(bytes);
  StreamingRate rate{.gb_s = gigabytes / seconds_of(unit)};
  rate.processor_s_per_gb = (processor_seconds() - before) / gigabytes;
  constexpr std::size_t alone = 16;
  if (experts.size() < alone) return rate;
  const auto apart = static_cast<std::ptrdiff_t>(experts.size() / alone);
  auto expert = experts.begin();
  for (std::size_t i = 0; i < alone; ++i) {
    rate.expert_seconds += seconds_of(expert->second) / alone;
    if (i + 1 < alone) std::advance(expert, apart);
  }
  return rate;
}

StreamStats StreamedBlocks::stats() const {
  // Somebody may have been in the middle of counting.
  if (store_->readers.is_forked()) return {.resident_bytes = store_->resident_bytes};
  const ReaderPool::Counts counts = store_->readers.counts();
  return {.resident_bytes = store_->resident_bytes, .streamed_bytes = counts.bytes, .expert_hits = store_->experts.hits, .expert_misses = store_->experts.misses,
          .read_seconds = counts.busy_seconds, .waited_seconds = counts.waited_seconds};
}

}  // namespace bantam::inline v0
