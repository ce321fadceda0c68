// Where the time of a pass goes, phase by phase: what `bantam bench --profile` shows.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace bantam::inline v0 {

/// What a phase of a pass does. A phase ends in a barrier.
enum class Work : std::uint8_t {
  products,    ///< of a layer's matrices
  head,        ///< logits
  attention,   ///< scores, softmax, sums of values
  recurrence,  ///< states of recurrent layers and their convolutions
  norms,       ///< what waits is added to the residual stream, normalized and rounded
  rounding,    ///< activations to 8 bits, where no norm comes before, and their other orders of columns
  gates,       ///< activation functions and what they are multiplied by, rounded
  positions,   ///< norms and rotations of queries and keys; keys and values go to the cache
  routing,     ///< of tokens to experts, and their sums
  lookups,     ///< rows of tables
  adapters,    ///< low-rank updates
  other,
};
inline constexpr std::array<std::string_view, 12> work_names{"products", "head", "attention", "recurrence", "norms", "rounding", "gates", "positions", "routing", "lookups", "adapters", "other"};
static_assert(work_names.size() == static_cast<std::size_t>(Work::other) + 1);

/// Filled by a Team (Team::set_profile) that deals out phases. Read between passes.
struct Profile {
  struct Phase {
    std::int64_t times = 0;
    double seconds = 0;                       ///< from its beginning until its last part was done
    std::atomic<std::int64_t> busy{0};        ///< nanoseconds of all threads in its parts
  };
  std::array<Phase, work_names.size()> phases;

  [[nodiscard]] Phase& operator[](Work work) noexcept { return phases[static_cast<std::size_t>(work)]; }
  /// Of all phases. What a pass takes beyond it the calling thread does alone, between them.
  [[nodiscard]] double seconds() const noexcept {
    double sum = 0;
    for (const Phase& phase : phases) sum += phase.seconds;
    return sum;
  }
};

namespace detail {

/// Nanoseconds since it was made.
class NanosecondWatch {
 public:
  [[nodiscard]] std::int64_t passed() const noexcept { return std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace detail

}  // namespace bantam::inline v0
