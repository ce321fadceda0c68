// Fairness among clients.
#include "text_queue.hpp"

#include <algorithm>

namespace bantam::inline v0 {

void Scheduler::TextQueue::add(const std::shared_ptr<Job>& job) {
  for (std::size_t i = 0; i < job->left; ++i) waiting_.push_back({.job = job, .number = i});
}

bool Scheduler::TextQueue::give_place(Texts& running, FunctionRef<bool(const Text&)> may_begin) {
  std::map<std::string_view, int> places;
  for (const Text& text : running) ++places[text.job->request.client];
  // The least claim wins.
  using Claim = std::pair<int, std::uint64_t>;
  const auto claim_of = [&](const Text& text) -> Claim {
    const std::string& client = text.job->request.client;
    const auto has = places.find(client);
    const auto given = last_place_.find(client);
    return {has == places.end() ? 0 : has->second, given == last_place_.end() ? 0 : given->second};
  };
  auto chosen = waiting_.end();
  Claim best{};
  for (auto text = waiting_.begin(); text != waiting_.end(); ++text) {
    if (!may_begin(*text)) continue;
    const Claim claim = claim_of(*text);
    if (chosen != waiting_.end() && claim >= best) continue;
    chosen = text;
    best = claim;
  }
  if (chosen == waiting_.end()) return false;
  last_place_[chosen->job->request.client] = ++places_given_;
  running.splice(running.end(), waiting_, chosen);
  return true;
}

}  // namespace bantam::inline v0
