// Slots for layers, and caches of experts.
#include "bantam/model/streamed_blocks.hpp"

#include <time.h>

#include <algorithm>
#include <map>

#include "bantam/core/far_apart.hpp"
#include "bantam/core/median.hpp"
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
  constexpr std::size_t large = std::size_t{128} << 20, enough = std::size_t{32} << 20, count = 5;
  std::vector<const CheckpointTensor*> tensors;
  std::map<std::pair<std::int64_t, std::int64_t>, StreamUnit> experts;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (!detail::can_stream(tensor)) continue;
    if (tensor.source->room_bytes() <= large) tensors.push_back(&tensor);
    if (tensor.expert >= 0) experts[{tensor.layer, tensor.expert}].add(tensor);
  }
  if (tensors.empty()) return {.gb_s = disk.gb_s};
  std::array<StreamUnit, count> units;
  std::size_t largest = 0;
  double gigabytes = 0;
  // Here and there, so that no cache of the drive's has all of them; where they are few, again.
  const std::vector<std::int64_t> order = far_apart(std::ssize(tensors));
  for (std::size_t i = 0, at = 0; i < count; ++i) {
    for (std::size_t n = 0; n < tensors.size() && units[i].bytes() < enough; ++n, ++at) {
      const CheckpointTensor& tensor = *tensors[static_cast<std::size_t>(order[at % order.size()])];
      units[i].add(tensor);
      if (i > 0) gigabytes += 1e-9 * static_cast<double>(tensor.stored_bytes());
    }
    largest = std::max(largest, units[i].bytes());
  }
  for (const auto& [place, unit] : experts) largest = std::max(largest, unit.bytes());
  std::array<std::shared_ptr<std::byte>, 2> slots;
  for (auto& slot : slots) {
    slot = nn::allocate_blocks(largest);
    std::fill_n(slot.get(), largest, std::byte{});  // as slots are, once they were used
  }
  // Behind what its threads read from and write to, which they are at when something fails.
  ReaderPool readers(disk.readers, reading_by(disk));

  // One unit after another into two slots, as layers are. Until the first is there, readers write their buffers for the first time.
  std::array<std::shared_ptr<ReaderPool::Batch>, count> batches;
  const auto begin = [&](std::size_t i) { batches[i] = readers.read(units[i].parts(), slots[i % 2].get(), ReaderPool::Haste::ahead); };
  begin(0);
  begin(1);
  units[0].finish(readers, *batches[0]);
  Stopwatch watch;
  const double before = processor_seconds();
  for (std::size_t i = 1; i < count; ++i) {
    if (i + 1 < count) begin(i + 1);
    units[i].finish(readers, *batches[i]);
  }
  StreamingRate rate{.gb_s = gigabytes / watch.seconds(), .processor_s_per_gb = (processor_seconds() - before) / gigabytes};

  constexpr std::size_t alone = 16;
  if (experts.size() < alone) return rate;
  std::vector<double> seconds;
  auto expert = experts.begin();
  for (std::size_t i = 0; i < alone; ++i) {
    const StreamUnit& unit = expert->second;
    watch = {};
    unit.finish(readers, *readers.read(unit.parts(), slots[0].get(), ReaderPool::Haste::wanted_now));
    seconds.push_back(watch.seconds());
    if (i + 1 < alone) std::advance(expert, static_cast<std::ptrdiff_t>(experts.size() / alone));
  }
  rate.expert_seconds = median(seconds);
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
