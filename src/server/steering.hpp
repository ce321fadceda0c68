// Which model takes a request of the first one's: itself, a smaller one, or its canary.
#pragma once

#include <functional>

#include "io/json.hpp"
#include "server/canary.hpp"
#include "server/ladder.hpp"
#include "server/metrics.hpp"

namespace bantam::server {

class Models;
struct ModelWanted;

struct SteeringOptions {
  std::string first = {};  ///< the name of the first model
  LadderOptions ladder = {};
  CanaryOptions canary = {};
};

/// Safe from any thread.
class Steering {
 public:
  using Note = std::function<void(std::string_view)>;

  Steering(const SteeringOptions& options, Note note) : first_(options.first), steps_(options.ladder.models), note_(std::move(note)), ladder_(options.ladder), canary_(options.canary) {}
  /// Puts another name in the place of the first model's, or of none. The canary takes nothing before it is loaded, which is asked for once; where that
  /// fails, and where it is unloaded, it is rolled back.
  void choose(ModelWanted& wanted, Models& models, std::string_view client, const Json& body);

  /// Whether texts of a model are compared: it has to say log probabilities.
  [[nodiscard]] bool compares(std::string_view model) const;
  void ended(std::string_view model, std::int64_t tokens, double nll);
  /// A text's first token came so late.
  void first_token(std::string_view model, double seconds);
  void write_metrics(Exposition& out) const;

 private:
  void roll_back(std::string_view why);

  const std::string first_;
  const std::vector<std::string> steps_;
  const Note note_;
  Ladder ladder_;
  Canary canary_;
};

}  // namespace bantam::server
