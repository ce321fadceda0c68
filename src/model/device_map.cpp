// Devices by name.
#include "bantam/model/device_map.hpp"

#include <algorithm>
#include <optional>

#include "bantam/core/error.hpp"
#include "io/json.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::string_view memory = "cpu", disk = "disk";

/// A part of a model, by what stands between the dots of its name.
struct Part {
  std::map<std::string, Part, std::less<>> parts;
  bool in_memory = false, on_disk = false;  ///< some of it
  std::optional<bool> own = {};             ///< whether a tensor of this very name is on the disk

  void add(std::string_view name, bool is_on_disk) {
    (is_on_disk ? on_disk : in_memory) = true;
    if (name.empty()) {
      own = is_on_disk;
      return;
    }
    const std::size_t dot = std::min(name.find('.'), name.size());
    parts[std::string(name.substr(0, dot))].add(name.substr(std::min(dot + 1, name.size())), is_on_disk);
  }
  /// The fewest names that tell what is where, beside what those above say.
  void tell(const std::string& name, bool said, DeviceMap& map) const {
    const std::optional<bool> all = in_memory != on_disk ? on_disk : own;
    if (all && *all != said) map.set(name, *all ? disk : memory);
    if (in_memory != on_disk) return;
    for (const auto& [last, part] : parts) part.tell(name.empty() ? last : name + "." + last, all.value_or(said), map);
  }
};

}  // namespace

DeviceMap DeviceMap::parse(std::string_view json, std::string_view place) {
  const Json root = Json::parse(json, place);
  const Json* map = root.is_object() ? root.find("device_map") : nullptr;
  if (map == nullptr) map = &root;
  if (!map->is_object()) fail(Errc::invalid_argument, place, ": expected an object of names and devices, found ", map->type_name());
  DeviceMap devices;
  for (const auto& [name, device] : map->items()) {
    if (!device.is_string()) fail(Errc::invalid_argument, place, ": ", printable(name), ": expected \"cpu\" or \"disk\", found ", printable(device.dump()));
    devices.set(name, device.string());
  }
  if (devices.empty()) fail(Errc::invalid_argument, place, ": expected names and devices, found none");
  return devices;
}

DeviceMap DeviceMap::of(const Checkpoint& checkpoint, const Residency& residency) {
  Part model;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (detail::can_stream(tensor) || detail::can_look_up(tensor)) model.add(tensor.name, !residency.keeps(tensor));
  }
  DeviceMap devices;
  devices.set("", memory);
  model.tell("", false, devices);
  return devices;
}

void DeviceMap::set(std::string_view name, std::string_view device) {
  if (device != memory && device != disk) fail(Errc::invalid_argument, "device_map: ", printable(name), ": expected \"cpu\" or \"disk\", found ", Json::quoted(printable(device)));
  on_disk_.insert_or_assign(std::string(name), device == disk);
}

bool DeviceMap::has_disk() const noexcept {
  return std::ranges::any_of(on_disk_, [](const auto& entry) { return entry.second; });
}

bool DeviceMap::on_disk(std::string_view tensor) const {
  for (std::string_view name = tensor;;) {
    if (const auto found = on_disk_.find(name); found != on_disk_.end()) return found->second;
    if (name.empty()) fail(Errc::invalid_argument, "device_map: expected a device for ", printable(tensor), ", found none; \"\" stands for all that have no other");
    const std::size_t dot = name.rfind('.');
    name = name.substr(0, dot == std::string_view::npos ? 0 : dot);
  }
}

std::string DeviceMap::to_json() const {
  Json map = Json::object();
  for (const auto& [name, is_on_disk] : on_disk_) map[name] = is_on_disk ? disk : memory;
  return map.dump();
}

}  // namespace bantam::inline v0
