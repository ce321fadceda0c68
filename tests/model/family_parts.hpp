// What a family adds, left out of the reference one by one: each part is missed.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tiny_model.hpp"

namespace bantam::test {

/// As in architectures_test.cpp.
inline constexpr double family_tolerance = 1e-4;

struct FamilyPart {
  const ArchSpec* arch;
  const char* name;
  std::function<void(reference::Transformer&)> leave_out;
};

/// Leaves out weights whose names end so: each number of them is `value`.
inline std::function<void(reference::Transformer&)> filled(const std::string& ending, float value) {
  return [=](reference::Transformer& r) {
    for (auto& [name, values] : r.weights) {
      if (name.ends_with(ending)) std::ranges::fill(values, value);
    }
  };
}

/// Logits of a model in a folder.
inline std::vector<float> folder_logits(const TinyModel& tiny, const std::vector<TokenId>& tokens) {
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  return logits_of(Model::load(folder / "hf"), tokens);
}

/// The reference's logits are ours, and no longer once a part is left out.
inline void check_parts_count(std::span<const FamilyPart> parts, const std::vector<TokenId>& tokens) {
  for (const FamilyPart& part : parts) {
    CAPTURE(std::string(part.arch->name));
    CAPTURE(std::string(part.name));
    TinyModel tiny{.arch = part.arch};
    tiny.make();
    const std::vector<float> logits = folder_logits(tiny, tokens);
    reference::Transformer reference = tiny.reference();
    CHECK(distance(logits, reference.logits(tokens)) < family_tolerance);
    part.leave_out(reference);
    CHECK(distance(logits, reference.logits(tokens)) > 20 * family_tolerance);
  }
}

}  // namespace bantam::test
