// The model of the demo, and what tests of sessions ask of it.
#pragma once

#include <filesystem>
#include <vector>

#include "bantam/bantam.hpp"

namespace bantam::test {

inline const std::filesystem::path demo_folder = std::filesystem::path(BANTAM_SOURCE_DIR) / "models/books4m";

/// Loaded once.
inline const Model& demo() {
  static const Model model = Model::load(demo_folder);
  return model;
}

inline std::vector<float> logits_of(Session& session) {
  const auto logits = session.logits();
  return {logits.begin(), logits.end()};
}

}  // namespace bantam::test
