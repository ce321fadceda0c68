// One name for the matrices of all experts of a layer.
#pragma once

#include <string>
#include <string_view>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

/// The name of an expert's tensor with * in the place of its number: "model.layers.3.mlp.experts.*.up_proj". The name as it is where
/// `expert` is -1.
[[nodiscard]] inline std::string name_of_experts(std::string_view name, std::int64_t expert) {
  std::string all(name);
  const std::string number = message('.', expert, '.');
  // The layer's number stands before it.
  if (const std::size_t at = all.rfind(number); expert >= 0 && at != std::string::npos) all.replace(at + 1, number.size() - 2, "*");
  return all;
}

}  // namespace bantam::inline v0
