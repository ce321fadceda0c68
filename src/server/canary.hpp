// A new model that takes a share of another one's requests, and gives it back if it drifts away.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace bantam::server {

struct CanaryOptions {
  std::string model = {};  ///< its name; empty: none
  double share = 0.05;     ///< of the first model's conversations, from 0 to 1
  double drift = 0.5;      ///< nats a token; it is rolled back where its texts are further from the first model's
  std::size_t least = 16;  ///< texts of each before anything is said, and of which the last count
};

/// Chooses by conversation, so that one stays with one model. Drift is the difference of the mean negative log probabilities that the models gave the
/// tokens that they drew: a broken model is less sure of what it writes, or surer of nonsense. Prompts are alike as the choice is random.
/// Safe from any thread.
class Canary {
 public:
  explicit Canary(CanaryOptions options) : options_(std::move(options)) {}
  [[nodiscard]] bool is_on() const noexcept { return !options_.model.empty(); }
  [[nodiscard]] const std::string& model() const noexcept { return options_.model; }

  /// Whether it takes a conversation that begins so.
  [[nodiscard]] bool takes(std::string_view client, std::string_view beginning);
  enum class Side : std::uint8_t { first, canary };
  /// A text of so many tokens, with the sum of their negative log probabilities. Whether that was one too many.
  [[nodiscard]] bool ended(Side side, std::int64_t tokens, double nll);
  /// Something else is wrong with it. Whether it was there still.
  bool roll_back();

  struct Counts {
    std::uint64_t first = 0, canary = 0;  ///< requests
    double first_nll = 0, canary_nll = 0; ///< mean, of texts that count
    std::optional<double> drift = {};     ///< once there are enough
    bool rolled_back = false;
  };
  [[nodiscard]] Counts counts() const;

 private:
  struct Text {
    std::int64_t tokens = 0;
    double nll = 0;
  };
  using Texts = std::deque<Text>;
  [[nodiscard]] static double mean_of(const Texts& texts);
  [[nodiscard]] std::optional<double> drift() const;

  // Of each side; older ones are forgotten.
  static constexpr std::size_t most_texts = 256;

  const CanaryOptions options_;
  mutable std::mutex mutex_;
  std::array<Texts, 2> texts_;  ///< by Side
  std::uint64_t first_ = 0, canary_ = 0;
  bool rolled_back_ = false;
};

}  // namespace bantam::server
