// Byte-pair merging: a table of what two neighboring symbols become, and the loop that applies it.
#include "text/merges.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <queue>

#include "bantam/core/error.hpp"
#include "bantam/core/parallel.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::uint32_t no_rank = ~std::uint32_t{0};
constexpr std::uint32_t none = ~std::uint32_t{0};
/// Marks a place whose symbol went into its left neighbor; other negative values stand for unknown characters.
constexpr Symbol merged_away = std::numeric_limits<Symbol>::min();
/// Below this many symbols scanning for the lowest rank beats a queue (measured on English words).
constexpr std::size_t short_run = 48;

/// Positions to merge, lowest rank first, leftmost of equals. A rank's positions mostly arrive from left to right,
/// so each rank keeps them as an ascending list and only what comes out of order goes through a heap.
class Agenda {
 public:
  void add(std::uint32_t rank, std::uint32_t position) {
    Rank& r = ranks_[rank];
    if (r.ascending.empty() || position > r.ascending.back()) {
      r.ascending.push_back(position);
    } else {
      r.late.push(position);
    }
  }
  [[nodiscard]] bool take(std::uint32_t& rank, std::uint32_t& position) {
    while (!ranks_.empty()) {
      const auto first = ranks_.begin();
      Rank& r = first->second;
      const bool listed = r.taken < r.ascending.size();
      if (!listed && r.late.empty()) {
        ranks_.erase(first);
        continue;
      }
      rank = first->first;
      if (listed && (r.late.empty() || r.ascending[r.taken] <= r.late.top())) {
        position = r.ascending[r.taken++];
      } else {
        position = r.late.top();
        r.late.pop();
      }
      return true;
    }
    return false;
  }

 private:
  struct Rank {
    std::vector<std::uint32_t> ascending;
    std::size_t taken = 0;
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> late;
  };
  std::map<std::uint32_t, Rank> ranks_;
};

}  // namespace

MergeTable::MergeTable(std::span<const Merge> merges, std::string_view place)
    : slots_(std::bit_ceil(merges.size() + merges.size() / 2 + 2)), size_(merges.size()), shift_(64 - std::countr_zero(slots_.size())) {
  const auto key_of_merge = [&](std::size_t i) { return key_of(merges[i].left, merges[i].right); };
  const auto slot_of = [&](std::uint64_t hash) { return &slots_[hash >> shift_]; };
  visit_hashed(merges.size(), [&](std::size_t i) { return hash_(key_of_merge(i)); }, slot_of, [&](std::size_t i, std::uint64_t hash) {
    const std::uint64_t key = key_of_merge(i);
    std::size_t at = hash >> shift_;
    while (slots_[at].key != 0) {
      if (slots_[at].key == key) fail(Errc::corrupt, place, ": merge ", i, " comes twice");
      at = (at + 1) & (slots_.size() - 1);
    }
    slots_[at] = {key, merges[i].rank, merges[i].merged};
  });
}

const MergeTable::Entry* MergeTable::find(Symbol left, Symbol right) const noexcept {
  if (left < 0 || right < 0 || slots_.size() == 0) return nullptr;
  const std::uint64_t key = key_of(left, right);
  std::size_t at = hash_(key) >> shift_;
  while (slots_[at].key != 0) {
    if (slots_[at].key == key) return &slots_[at];
    at = (at + 1) & (slots_.size() - 1);
  }
  return nullptr;
}

void Merger::run(std::vector<Symbol>& symbols) {
  if (symbols.size() < 2) return;
  if (symbols.size() <= short_run) {
    run_short(symbols);
  } else {
    run_long(symbols);
  }
}

void Merger::run_short(std::vector<Symbol>& symbols) {
  std::size_t n = symbols.size();
  const auto rank_at = [&](std::size_t i) {
    const MergeTable::Entry* entry = table_.find(symbols[i], symbols[i + 1]);
    return entry ? entry->rank : no_rank;
  };
  ranks_.resize(n);
  for (std::size_t i = 0; i + 1 < n; ++i) ranks_[i] = rank_at(i);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i) {
      if (ranks_[i] < ranks_[best]) best = i;
    }
    if (ranks_[best] == no_rank) break;
    symbols[best] = table_.find(symbols[best], symbols[best + 1])->merged;
    for (std::size_t i = best + 1; i + 1 < n; ++i) {
      symbols[i] = symbols[i + 1];
      ranks_[i] = ranks_[i + 1];
    }
    --n;
    if (best > 0) ranks_[best - 1] = rank_at(best - 1);
    ranks_[best] = best + 1 < n ? rank_at(best) : no_rank;
  }
  symbols.resize(n);
}

void Merger::run_long(std::vector<Symbol>& symbols) {
  const auto n = static_cast<std::uint32_t>(symbols.size());
  next_.resize(n);
  previous_.resize(n);
  Agenda agenda;
  const auto consider = [&](std::uint32_t left, std::uint32_t right) {
    const MergeTable::Entry* entry = table_.find(symbols[left], symbols[right]);
    if (entry) agenda.add(entry->rank, left);
  };
  for (std::uint32_t i = 0; i < n; ++i) {
    previous_[i] = i == 0 ? none : i - 1;
    next_[i] = i + 1 == n ? none : i + 1;
    if (i + 1 < n) consider(i, i + 1);
  }
  std::uint32_t rank = 0;
  std::uint32_t left = 0;
  for (std::uint32_t steps = 1; agenda.take(rank, left); ++steps) {
    if (steps % 4096 == 0) check_cancelled();
    // An entry is stale when its symbols have merged with others since: the pair there now is another one, or none.
    const std::uint32_t right = symbols[left] == merged_away ? none : next_[left];
    if (right == none) continue;
    const MergeTable::Entry* entry = table_.find(symbols[left], symbols[right]);
    if (!entry || entry->rank != rank) continue;
    symbols[left] = entry->merged;
    symbols[right] = merged_away;
    next_[left] = next_[right];
    if (next_[left] != none) {
      previous_[next_[left]] = left;
      consider(left, next_[left]);
    }
    if (previous_[left] != none) consider(previous_[left], left);
  }
  std::size_t kept = 0;
  for (std::uint32_t i = 0; i != none; i = next_[i]) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

}  // namespace bantam::inline v0
