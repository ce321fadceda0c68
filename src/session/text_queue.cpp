// Priorities, and fairness among equals.
#include "text_queue.hpp"

#include <algorithm>
#include <tuple>

namespace bantam::inline v0 {

bool Scheduler::TextQueue::give_place(Texts& running, FunctionRef<bool(const Text&)> may_begin) {
  std::map<std::string_view, int> places;
  for (const Text& text : running) ++places[text.job->request.client];
  // The least claim wins.
  using Claim = std::tuple<std::int64_t, int, std::uint64_t>;
  const auto claim_of = [&](const Text& text) -> Claim {
    const TextRequest& request = text.job->request;
    const auto has = places.find(request.client);
    const auto given = last_place_.find(request.client);
    return {-static_cast<std::int64_t>(request.priority), has == places.end() ? 0 : has->second, given == last_place_.end() ? 0 : given->second};
  };
  auto chosen = waiting_.end(), first = waiting_.end();
  Claim best{};
  for (auto text = waiting_.begin(); text != waiting_.end(); ++text) {
    if (!may_begin(*text)) continue;
    if (first == waiting_.end()) first = text;
    const Claim claim = claim_of(*text);
    if (chosen != waiting_.end() && claim >= best) continue;
    chosen = text;
    best = claim;
  }
  if (chosen == waiting_.end()) return false;
  if (chosen != first && passes_ == most_passes) chosen = first;
  passes_ = chosen == first ? 0 : passes_ + 1;
  last_place_[chosen->job->request.client] = ++places_given_;
  running.splice(running.end(), waiting_, chosen);
  return true;
}

}  // namespace bantam::inline v0
