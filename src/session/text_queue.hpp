// Texts that wait for a place, and who gets the next one.
#pragma once

#include <list>
#include <map>
#include <string>

#include "scheduled_text.hpp"

namespace bantam::inline v0 {

/// Places go to the client that has the fewest of them, and of those to the one that was given one longest ago, whose texts follow in the
/// order in which they came.
class Scheduler::TextQueue {
 public:
  using Texts = std::list<Text>;

  void add(const std::shared_ptr<Job>& job);
  /// The text that is to have the next place, moved to the end of `running`; false where none may begin. Only texts that `may_begin` are chosen.
  [[nodiscard]] bool give_place(Texts& running, FunctionRef<bool(const Text&)> may_begin);
  /// Nothing of that client is at hand any more.
  void forget(const std::string& client) { last_place_.erase(client); }

  [[nodiscard]] Texts& texts() noexcept { return waiting_; }
  [[nodiscard]] const Texts& texts() const noexcept { return waiting_; }

 private:
  Texts waiting_;
  std::map<std::string, std::uint64_t> last_place_;  ///< of clients with requests at hand: when one of them got a place
  std::uint64_t places_given_ = 0;
};

}  // namespace bantam::inline v0
