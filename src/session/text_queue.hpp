// Texts that wait for a place, and who gets the next one.
#pragma once

#include <list>
#include <map>
#include <string>

#include "scheduled_text.hpp"

namespace bantam::inline v0 {

/// Places go to the texts of the highest priority; among equals to the client that has the fewest of them, and of those to the one that was
/// given one longest ago, whose texts follow in the order in which they came. So that nobody waits for ever, whoever else comes, the text that
/// came first is passed over `most_passes` times at most: then another one comes to be the first.
class Scheduler::TextQueue {
 public:
  using Texts = std::list<Text>;

  /// The text that is to have the next place, moved to the end of `running`; false where none may begin. Only texts that `may_begin` are chosen.
  [[nodiscard]] bool give_place(Texts& running, FunctionRef<bool(const Text&)> may_begin);
  /// Nothing of that client is at hand any more.
  void forget(const std::string& client) { last_place_.erase(client); }

  [[nodiscard]] Texts& texts() noexcept { return waiting_; }
  [[nodiscard]] const Texts& texts() const noexcept { return waiting_; }

 private:
  /// Those that hurry still get 16 places of 17.
  static constexpr int most_passes = 16;

  Texts waiting_;
  std::map<std::string, std::uint64_t> last_place_;  ///< of clients with requests at hand: when one of them got a place
  std::uint64_t places_given_ = 0;
  int passes_ = 0;  ///< places given to others since the text that came first was chosen
};

}  // namespace bantam::inline v0
