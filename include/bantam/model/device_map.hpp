// Which weights stay in memory and which in their file, as the caller says.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "bantam/model/residency.hpp"

namespace bantam::inline v0 {

/// Hugging Face accelerate's `device_map` for a machine without GPUs: parts of a model by their names, "model.layers.0.mlp", or "" for all of it, each on
/// "cpu" or on "disk". Names are Checkpoint's, whatever the container. What is on the disk is read when it is wanted; experts there are cached, as many as
/// there is room for. Norms, routers, the head and the layer that drafts are in memory in any case.
class DeviceMap {
 public:
  DeviceMap() = default;
  /// JSON: an object of names and devices, or one that has such as its "device_map". Throws corrupt, and invalid_argument for another device; `place`
  /// comes first.
  [[nodiscard]] static DeviceMap parse(std::string_view json, std::string_view place = "device_map");
  /// What a Residency amounts to, in as few names as say it. Experts of which some are cached are on the disk.
  [[nodiscard]] static DeviceMap of(const Checkpoint& checkpoint, const Residency& residency);

  /// device: "cpu" or "disk", else throws invalid_argument.
  void set(std::string_view name, std::string_view device);
  [[nodiscard]] bool empty() const noexcept { return on_disk_.empty(); }
  [[nodiscard]] bool has_disk() const noexcept;
  /// By the longest name that is the tensor's or, up to a dot, begins it. Throws invalid_argument where there is none.
  [[nodiscard]] bool on_disk(std::string_view tensor) const;
  [[nodiscard]] std::string to_json() const;

 private:
  std::map<std::string, bool, std::less<>> on_disk_;
};

}  // namespace bantam::inline v0
