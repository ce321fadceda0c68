// Dividing a bound of memory among what a model consists of.
#include "bantam/model/residency.hpp"

#include <algorithm>
#include <limits>

#include "bantam/core/memory.hpp"
#include "bantam/model/roles.hpp"
#include "bantam/nn/page_store.hpp"
#include "bantam/quant/formats.hpp"

namespace bantam::inline v0 {

namespace {

using nn::storage_bytes;

/// As it is in memory: routers are floats there, whatever the file has.
std::int64_t pinned_bytes_of(const CheckpointTensor& tensor) noexcept {
  if (!tensor.is_matrix) return 0;
  const bool widened = info_of(tensor.role).stays_float() && !tensor.format().is_float;
  const FormatInfo& format = widened ? format_info<F32Format>() : tensor.format();
  return storage_bytes(format.matrix_bytes(tensor.rows, tensor.columns));
}

/// Of a layer that takes part in passes.
struct LayerBytes {
  std::int64_t pinned = 0;          ///< of its matrices, but for experts', where they stay
  std::int64_t kept = 0;            ///< of those that stay in any case
  std::int64_t slot = 0, file = 0;  ///< of the others: in a slot, and of the file
  std::vector<std::int64_t> experts = {};  ///< of each, in a slot
  std::int64_t expert_file = 0;     ///< of all
  [[nodiscard]] std::int64_t largest_expert() const { return experts.empty() ? 0 : std::ranges::max(experts); }
};

}  // namespace

namespace detail {

bool can_stream(const CheckpointTensor& tensor) noexcept { return tensor.is_matrix && tensor.layer >= 0 && !tensor.is_drafting && !info_of(tensor.role).stays_float(); }

bool can_look_up(const CheckpointTensor& tensor) noexcept {
  const RoleInfo& role = info_of(tensor.role);
  return role.is_looked_up() && !role.stays_float();
}

bool is_read_whole(const CheckpointTensor& tensor, const ModelConfig& config) noexcept {
  return !info_of(tensor.role).is_looked_up() || (tensor.role == Role::embedding && config.tied && config.has_head);
}

std::int64_t room_in_slot(const CheckpointTensor& tensor) noexcept {
  return static_cast<std::int64_t>(round_up(tensor.source->room_bytes(), MappedFile::block_bytes));
}

}  // namespace detail

bool Residency::keeps(const CheckpointTensor& tensor) const noexcept {
  if (detail::can_look_up(tensor)) return tensor.role == Role::embedding && keeps_embedding;
  if (!detail::can_stream(tensor)) return true;
  const Layer& layer = layers[static_cast<std::size_t>(tensor.layer)];
  return tensor.expert >= 0 ? layer.cached_experts == 0 : !layer.streams;
}

std::int64_t bytes_in_memory(const Checkpoint& checkpoint) {
  std::int64_t sum = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) sum += pinned_bytes_of(tensor);
  return sum;
}

double expert_hits(std::int64_t cached, std::int64_t experts) noexcept {
  constexpr double c = 0.08;
  const double share = static_cast<double>(cached) / static_cast<double>(experts);
  return share * (1 + c) / (share + c);
}

Residency residency_of(const Checkpoint& checkpoint, std::int64_t limit) {
  const ModelConfig& config = checkpoint.config();
  Residency r{.layers = std::vector<Residency::Layer>(static_cast<std::size_t>(config.layers)), .keeps_embedding = config.tied && config.has_head, .limit = limit};
  std::vector<LayerBytes> of(r.layers.size());
  std::int64_t core = 0;
  for (std::size_t i = 0; i < of.size(); ++i) of[i].experts.resize(static_cast<std::size_t>(config.specs[i].experts));
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (detail::can_look_up(tensor) && !r.keeps(tensor)) {
      r.table_bytes += tensor.stored_bytes();
    } else if (tensor.layer < 0 || tensor.is_drafting) {
      core += pinned_bytes_of(tensor);
    }
    if (tensor.layer < 0 || tensor.is_drafting) continue;
    LayerBytes& layer = of[static_cast<std::size_t>(tensor.layer)];
    if (!detail::can_stream(tensor)) {
      layer.kept += pinned_bytes_of(tensor);
    } else if (tensor.expert >= 0) {
      layer.experts[static_cast<std::size_t>(tensor.expert)] += detail::room_in_slot(tensor);
      layer.expert_file += tensor.stored_bytes();
    } else {
      layer.pinned += pinned_bytes_of(tensor);
      layer.slot += detail::room_in_slot(tensor);
      layer.file += tensor.stored_bytes();
    }
  }
  const auto experts_of = [&](std::size_t i) { return std::ssize(of[i].experts); };
  std::int64_t floor_of_experts = 0;
  for (std::size_t i = 0; i < of.size(); ++i) {
    r.layers[i].expert_slot_bytes = of[i].largest_expert();
    core += of[i].kept;
    // A token needs all of its experts at once.
    r.layers[i].cached_experts = std::min(config.router.used, experts_of(i));
    floor_of_experts += storage_bytes(r.layers[i].cached_experts * r.layers[i].expert_slot_bytes);
  }
  // As few layers as will do; with all of them, nothing else is left.
  const auto count = std::ssize(of);
  r.least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t streamed = 0; streamed <= count; ++streamed) {
    std::int64_t pinned = core, largest = 0, file = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const LayerBytes& layer = of[static_cast<std::size_t>(i)];
      const bool streams = (i + 1) * streamed / count > i * streamed / count;
      r.layers[static_cast<std::size_t>(i)].streams = streams;
      if (streams) largest = std::max(largest, layer.slot), file += layer.file;
      else pinned += layer.pinned;
    }
    r.slots = streamed > 0 ? 2 : 0;
    r.slot_bytes = storage_bytes(largest);
    r.pinned_bytes = pinned;
    r.streamed_layer_bytes = file;
    const std::int64_t least = pinned + r.slots * r.slot_bytes + floor_of_experts;
    r.least = std::min(r.least, least);
    if (least <= limit) break;
  }
  for (std::size_t i = 0; i < of.size(); ++i) r.layers[i].slot_bytes = r.layers[i].streams ? of[i].slot : 0;
  // An expert more for each layer in turn, as long as there is room.
  r.cache_bytes = floor_of_experts;
  const std::int64_t room = limit - r.pinned_bytes - r.slots * r.slot_bytes;
  for (bool grew = true; grew;) {
    grew = false;
    for (std::size_t i = 0; i < of.size(); ++i) {
      Residency::Layer& layer = r.layers[i];
      if (layer.cached_experts == experts_of(i)) continue;
      const std::int64_t more = storage_bytes((layer.cached_experts + 1) * layer.expert_slot_bytes) - storage_bytes(layer.cached_experts * layer.expert_slot_bytes);
      if (r.cache_bytes + more > room) continue;
      r.cache_bytes += more;
      ++layer.cached_experts;
      grew = true;
    }
  }
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (of[i].experts.empty()) continue;
    const auto experts = experts_of(i);
    const double missed = 1 - expert_hits(r.layers[i].cached_experts, experts);
    r.missed_expert_bytes += static_cast<std::int64_t>(missed * static_cast<double>(of[i].expert_file / experts * config.router.used));
  }
  return r;
}

}  // namespace bantam::inline v0
