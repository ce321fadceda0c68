// What reads and arithmetic of a pass do when, where weights are streamed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace bantam::cli {

/// What a layer asks for in a pass, in seconds.
struct LayerTime {
  double arithmetic = 0;         ///< until tokens are routed; all of it, where they are not
  double read_ahead = 0;         ///< of its matrices; 0: they stay
  double read_experts = 0;       ///< of those that are not there, from then on
  double expert_arithmetic = 0;  ///< with those that are, meanwhile
  double late_arithmetic = 0;    ///< with those that were not
};

/// One pass among many: one that takes about as long as they do on average.
struct Timeline {
  static constexpr std::int64_t head = -1;
  struct Span {
    double begin = 0, end = 0;  ///< in seconds from the pass's beginning on
    std::int64_t layer = 0;     ///< or head
  };
  std::vector<Span> arithmetic, read_ahead, read_experts;
  double seconds = 0;  ///< on average
};

/// Follows StreamedBlocks: two slots for layers that are read ahead, one after the other; reads of experts come before those, while
/// experts that are there are run. `passes` follow each other, and differ in their experts alone.
[[nodiscard]] Timeline timeline_of(std::span<const std::vector<LayerTime>> passes, double head_seconds);
/// A row each for reads and arithmetic.
[[nodiscard]] std::string svg(const Timeline& timeline, const std::string& title);

}  // namespace bantam::cli
