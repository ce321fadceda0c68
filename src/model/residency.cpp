// Dividing a bound of memory among what a model consists of.
#include "bantam/model/residency.hpp"

#include <algorithm>
#include <limits>

#include "bantam/core/memory.hpp"
#include "bantam/io/file.hpp"
#include "bantam/model/device_map.hpp"
#include "bantam/model/roles.hpp"
#include "bantam/quant/formats.hpp"

namespace bantam::inline v0 {

namespace {

/// As it is in memory: routers are floats there, whatever the file has. What stays lies side by side, but for the rest of a page behind each.
std::int64_t pinned_bytes_of(const CheckpointTensor& tensor) noexcept {
  if (!tensor.is_matrix) return 0;
  const FormatInfo& format = detail::is_widened(tensor) ? format_info<F32Format>() : tensor.format();
  return format.matrix_bytes(tensor.rows, tensor.columns);
}

/// A matrix of a layer, or several of one role.
struct MatrixBytes {
  Role role;
  bool on_disk = false;             ///< as a DeviceMap has it
  std::int64_t pinned = 0;          ///< in memory for good
  std::int64_t slot = 0, file = 0;  ///< in a slot, and of the file
};

/// Of a layer that takes part in passes.
struct LayerBytes {
  std::vector<MatrixBytes> matrices = {};  ///< that may stream, but for experts'
  std::vector<bool> stays = {};            ///< of each of them
  std::int64_t kept = 0;                   ///< of those that stay in any case
  std::vector<std::int64_t> experts = {};  ///< of each, in a slot
  bool experts_stay = false;               ///< as a DeviceMap has it
  std::int64_t expert_pinned = 0;          ///< of all, where they stay
  std::int64_t expert_file = 0;            ///< of all
  [[nodiscard]] std::int64_t largest_expert() const { return experts.empty() ? 0 : std::ranges::max(experts); }
  MatrixBytes& matrix(Role role) {
    const auto found = std::ranges::find(matrices, role, &MatrixBytes::role);
    return found != matrices.end() ? *found : matrices.emplace_back(MatrixBytes{.role = role});
  }
};

/// What the matrices of layers take: those that stay, and two slots for the most that is read of one layer.
std::int64_t cost_of(const std::vector<LayerBytes>& of) noexcept {
  std::int64_t pinned = 0, largest = 0;
  for (const LayerBytes& layer : of) {
    std::int64_t slot = 0;
    for (std::size_t m = 0; m < layer.matrices.size(); ++m) {
      if (layer.stays[m]) pinned += layer.matrices[m].pinned;
      else slot += layer.matrices[m].slot;
    }
    largest = std::max(largest, slot);
  }
  return pinned + 2 * largest;
}

/// Finds matrices that stay: of each layer the largest first, then the next. While one is pinned in all layers alike slots shrink, so that more is in
/// memory than if as many bytes of whole layers were. Where one does not fit in all layers it is pinned in some, spread through the depth, and smaller
/// ones fill what is left.
void pin_matrices(std::vector<LayerBytes>& of, std::int64_t room) {
  std::size_t most = 0;
  for (LayerBytes& layer : of) {
    std::ranges::stable_sort(layer.matrices, std::ranges::greater(), &MatrixBytes::slot);
    layer.stays.assign(layer.matrices.size(), true);
    most = std::max(most, layer.matrices.size());
  }
  if (cost_of(of) <= room) return;
  for (LayerBytes& layer : of) std::fill(layer.stays.begin(), layer.stays.end(), false);
  const std::size_t layers = of.size();
  for (std::size_t m = 0; m < most; ++m) {
    const auto fits_in = [&](std::size_t count) {
      for (std::size_t i = 0; i < layers; ++i) {
        if (m < of[i].matrices.size()) of[i].stays[m] = (i + 1) * count / layers > i * count / layers;
      }
      return cost_of(of) <= room;
    };
    if (fits_in(layers)) continue;
    std::size_t fits = 0, too_many = layers;
    while (fits + 1 < too_many) {
      const std::size_t middle = fits + (too_many - fits) / 2;
      (fits_in(middle) ? fits : too_many) = middle;
    }
    (void)fits_in(fits);
  }
}

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

bool is_widened(const CheckpointTensor& tensor) noexcept { return tensor.is_matrix && info_of(tensor.role).is_widened() && !tensor.format().is_float; }

std::int64_t room_of(const CheckpointTensor& tensor) noexcept {
  return static_cast<std::int64_t>(round_up(tensor.source->room_bytes(), MappedFile::block_bytes));
}

}  // namespace detail

void Residency::look_up(const CheckpointTensor& table) {
  looked_up.push_back(table.role);
  table_bytes += table.stored_bytes();
}

bool Residency::keeps(const CheckpointTensor& tensor) const noexcept {
  if (tensor.layer < 0) return std::ranges::find(looked_up, tensor.role) == looked_up.end();
  if (!detail::can_stream(tensor)) return true;
  const Layer& layer = layers[static_cast<std::size_t>(tensor.layer)];
  return tensor.expert >= 0 ? layer.cached_experts == 0 : std::ranges::find(layer.streamed, tensor.role) == layer.streamed.end();
}

std::int64_t bytes_in_memory(const Checkpoint& checkpoint) {
  std::int64_t sum = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) sum += pinned_bytes_of(tensor);
  return sum;
}

Residency residency_with_room(const Checkpoint& checkpoint) {
  Residency r{.layers = std::vector<Residency::Layer>(static_cast<std::size_t>(checkpoint.config().layers)), .limit = Residency::no_limit};
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.role == Role::per_layer_embedding || tensor.role == Role::ngram_embedding) {
      r.look_up(tensor);
    } else {
      r.pinned_bytes += pinned_bytes_of(tensor);
    }
  }
  r.least = r.pinned_bytes;
  return r;
}

double expert_hits(std::int64_t cached, std::int64_t experts) noexcept {
  constexpr double c = 0.08;
  const double share = static_cast<double>(cached) / static_cast<double>(experts);
  return share * (1 + c) / (share + c);
}

Residency residency_of(const Checkpoint& checkpoint, std::int64_t limit, const DeviceMap* devices) {
  const ModelConfig& config = checkpoint.config();
  Residency r{.layers = std::vector<Residency::Layer>(static_cast<std::size_t>(config.layers)), .limit = limit};
  std::vector<LayerBytes> of(r.layers.size());
  std::int64_t core = 0;
  for (std::size_t i = 0; i < of.size(); ++i) {
    of[i].experts.resize(static_cast<std::size_t>(config.specs[i].experts));
    of[i].experts_stay = devices != nullptr;
  }
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const bool on_disk = devices != nullptr && devices->on_disk(tensor.name);
    if (detail::can_look_up(tensor) && !detail::is_read_whole(tensor, config) && (devices == nullptr || on_disk)) {
      r.look_up(tensor);
    } else if (tensor.layer < 0 || tensor.is_drafting) {
      core += pinned_bytes_of(tensor);
    }
    if (tensor.layer < 0 || tensor.is_drafting) continue;
    LayerBytes& layer = of[static_cast<std::size_t>(tensor.layer)];
    if (!detail::can_stream(tensor)) {
      layer.kept += pinned_bytes_of(tensor);
    } else if (tensor.expert >= 0) {
      layer.experts[static_cast<std::size_t>(tensor.expert)] += detail::room_of(tensor);
      layer.expert_file += tensor.stored_bytes();
      layer.expert_pinned += pinned_bytes_of(tensor);
      if (on_disk) layer.experts_stay = false;
    } else {
      MatrixBytes& matrix = layer.matrix(tensor.role);
      matrix.pinned += pinned_bytes_of(tensor);
      matrix.slot += detail::room_of(tensor);
      matrix.file += tensor.stored_bytes();
      matrix.on_disk = matrix.on_disk || on_disk;
    }
  }
  const auto experts_of = [&](std::size_t i) { return std::ssize(of[i].experts); };
  std::int64_t floor_of_experts = 0;
  for (std::size_t i = 0; i < of.size(); ++i) {
    core += of[i].kept;
    if (of[i].experts_stay) {
      core += of[i].expert_pinned;
      continue;
    }
    r.layers[i].expert_slot_bytes = of[i].largest_expert();
    // A token needs all of its experts at once.
    r.layers[i].cached_experts = std::min(config.router.used, experts_of(i));
    floor_of_experts += r.layers[i].cached_experts * r.layers[i].expert_slot_bytes;
  }
  if (devices == nullptr) {
    pin_matrices(of, limit - core - floor_of_experts);
  } else {
    for (LayerBytes& layer : of) {
      for (const MatrixBytes& matrix : layer.matrices) layer.stays.push_back(!matrix.on_disk);
    }
  }
  r.pinned_bytes = core;
  std::int64_t all = core, largest = 0, largest_layer = 0;
  for (std::size_t i = 0; i < of.size(); ++i) {
    std::int64_t whole = 0;
    for (std::size_t m = 0; m < of[i].matrices.size(); ++m) {
      const MatrixBytes& matrix = of[i].matrices[m];
      all += matrix.pinned;
      whole += matrix.slot;
      if (of[i].stays[m]) {
        r.pinned_bytes += matrix.pinned;
        continue;
      }
      r.layers[i].streamed.push_back(matrix.role);
      r.layers[i].slot_bytes += matrix.slot;
      r.streamed_layer_bytes += matrix.file;
    }
    largest = std::max(largest, r.layers[i].slot_bytes);
    largest_layer = std::max(largest_layer, whole);
  }
  r.slots = largest > 0 ? 2 : 0;
  r.slot_bytes = largest;
  r.least = floor_of_experts + (devices == nullptr ? std::min(all, core + 2 * largest_layer) : r.pinned_bytes + r.slots * r.slot_bytes);
  r.cache_bytes = floor_of_experts;
  // An expert more for each layer in turn, as long as there is room.
  const std::int64_t room = limit - r.pinned_bytes - r.slots * r.slot_bytes;
  for (bool grew = true; grew;) {
    grew = false;
    for (std::size_t i = 0; i < of.size(); ++i) {
      Residency::Layer& layer = r.layers[i];
      if (of[i].experts_stay || layer.cached_experts == experts_of(i)) continue;
      if (r.cache_bytes + layer.expert_slot_bytes > room) continue;
      r.cache_bytes += layer.expert_slot_bytes;
      ++layer.cached_experts;
      grew = true;
    }
  }
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (!of[i].experts.empty()) r.layers[i].expert_file_bytes = of[i].expert_file / experts_of(i);
  }
  return r;
}

}  // namespace bantam::inline v0
