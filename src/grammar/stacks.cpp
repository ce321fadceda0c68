// Steps from place to place.
#include "grammar/stacks.hpp"

#include <algorithm>

#include "bantam/core/hash.hpp"

namespace bantam::inline v0::grammar {

namespace {

[[noreturn]] void refuse_ambiguous() {
  fail(Errc::grammar, "grammar: expected a text that can be read in at most ", Stacks::most_items, " ways, found more: it is too ambiguous");
}

}  // namespace

Stacks::Stacks(const Automaton& automaton) : automaton_(&automaton) { reset(); }

void Stacks::reset() {
  items_.clear();
  sets_.clear();
  tables_.clear();
  next_.clear();
  slots_.assign(1 << 10, unknown);
  std::vector<Item> none, end{{Automaton::end, dead}}, hole{{Automaton::hole, dead}};
  (void)intern(none);
  (void)intern(end);
  (void)intern(hole);
}

Stacks::Place Stacks::begin() {
  std::vector<Item> start{{automaton_->root(), bottom}};
  if (automaton_->root_may_be_empty()) start.push_back({Automaton::end, dead});
  return close(std::move(start));
}

Stacks::Place Stacks::alone(Automaton::State state) {
  std::vector<Item> items{{state, open}};
  return intern(items);
}

Stacks::Place Stacks::join(Place a, Place b) {
  if (a == dead || a == b) return b;
  if (b == dead) return a;
  std::vector<Item> both = copy_of(a);
  const auto more = items(b);
  both.insert(both.end(), more.begin(), more.end());
  return intern(both);
}

Stacks::Place Stacks::find_step(Place place, std::uint8_t byte) {
  std::vector<Item> moved;
  for (const Item& item : items(place)) {
    for (const auto& edge : automaton_->bytes(item.state)) {
      if (byte >= edge.first && byte <= edge.last) moved.push_back({edge.to, item.above});
    }
  }
  const Place to = close(std::move(moved));
  if (tables_[place] == no_table) {
    if (next_.size() == most_tables) {
      next_.clear();
      std::ranges::fill(tables_, no_table);
    }
    tables_[place] = static_cast<std::uint32_t>(next_.size());
    next_.emplace_back().fill(unknown);
  }
  next_[tables_[place]][byte] = to;
  return to;
}

void Stacks::add_ended(std::vector<Item>& items) const {
  std::vector<Place> ended;
  for (const Item& item : items) {
    if (automaton_->accepts(item.state)) ended.push_back(item.above);
  }
  std::ranges::sort(ended);
  ended.erase(std::unique(ended.begin(), ended.end()), ended.end());
  // What rules return to has this done already: one step is enough.
  for (const Place above : ended) {
    const auto more = this->items(above);
    items.insert(items.end(), more.begin(), more.end());
  }
}

std::optional<Stacks::Place> Stacks::return_to(std::vector<Item> items) {
  add_ended(items);
  // What only ends has been replaced by what is above it: lists do not grow a stack.
  std::erase_if(items, [&](const Item& item) {
    return item.state > Automaton::hole && automaton_->bytes(item.state).empty() && automaton_->calls(item.state).empty() &&
           automaton_->tokens(item.state).empty();
  });
  for (const Item& item : items) {
    if (sets_[item.above].depth >= deepest) return std::nullopt;
  }
  return intern(items);
}

Stacks::Place Stacks::close(std::vector<Item> moved) {
  if (moved.empty()) return dead;
  add_ended(moved);
  // Calls in the order of ranks: when a rule's turn comes, all its callers are known.
  struct Call {
    std::uint32_t rank;
    Automaton::State start;
    Item back;
  };
  std::vector<Call> calls;
  const auto later = [](const Call& a, const Call& b) { return a.rank > b.rank; };
  const auto add_calls = [&](const Item& item) {
    const auto edges = automaton_->calls(item.state);
    if (moved.size() + calls.size() + edges.size() > 4 * most_items) refuse_ambiguous();
    for (const auto& edge : edges) {
      calls.push_back({edge.rank, edge.start, {edge.to, item.above}});
      std::ranges::push_heap(calls, later);
    }
  };
  std::ranges::sort(moved);
  moved.erase(std::unique(moved.begin(), moved.end()), moved.end());
  for (const Item& item : moved) add_calls(item);
  while (!calls.empty()) {
    const Call first = calls.front();
    std::vector<Item> back;
    while (!calls.empty() && calls.front().rank == first.rank) {
      back.push_back(calls.front().back);
      std::ranges::pop_heap(calls, later);
      calls.pop_back();
    }
    const std::optional<Place> above = return_to(std::move(back));
    if (!above) continue;
    const Item start{first.start, *above};
    moved.push_back(start);
    add_calls(start);
  }
  // What has been called, or has ended, has nothing more to say.
  std::erase_if(moved, [&](const Item& item) {
    return item.state > Automaton::hole && automaton_->bytes(item.state).empty() && automaton_->tokens(item.state).empty();
  });
  if (moved.size() > most_items) refuse_ambiguous();
  return intern(moved);
}

std::uint64_t Stacks::hash(std::span<const Item> items) const {
  static_assert(sizeof(Item) == 8);
  return KeyedHash()(std::string_view(reinterpret_cast<const char*>(items.data()), items.size() * sizeof(Item)));
}

Stacks::Place Stacks::intern(std::vector<Item>& items) {
  std::ranges::sort(items);
  items.erase(std::unique(items.begin(), items.end()), items.end());
  if (2 * (sets_.size() + 1) > slots_.size()) grow_slots();
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash(items) & mask;
  for (; slots_[at] != unknown; at = (at + 1) & mask) {
    if (std::ranges::equal(this->items(slots_[at]), items)) return slots_[at];
  }
  if (size() + items.size() > most_size) fail(Errc::grammar, "grammar: expected ", most_size, " items at most, found more: the text is too ambiguous");
  const auto place = static_cast<Place>(sets_.size());
  Set set{static_cast<std::uint32_t>(items_.size()), static_cast<std::uint32_t>(items.size()), 0, false, false};
  for (const Item& item : items) {
    if (item.state > Automaton::hole) set.depth = std::max(set.depth, sets_[item.above].depth + 1);
    set.ends |= item.state == Automaton::end;
    set.leaves |= item.state == Automaton::hole;
  }
  items_.insert(items_.end(), items.begin(), items.end());
  sets_.push_back(set);
  tables_.push_back(no_table);
  slots_[at] = place;
  return place;
}

void Stacks::grow_slots() {
  slots_.assign(2 * slots_.size(), unknown);
  const std::size_t mask = slots_.size() - 1;
  for (Place place = 0; place < sets_.size(); ++place) {
    std::size_t at = hash(items(place)) & mask;
    while (slots_[at] != unknown) at = (at + 1) & mask;
    slots_[at] = place;
  }
}

Stacks::Stacks(const Stacks& from, std::span<Place> places) : automaton_(from.automaton_) {
  // What a set refers to was there before it: one pass back finds all that is needed, one forward copies it.
  std::vector<bool> needed(from.sets_.size(), false);
  for (const Place place : places) needed[place] = true;
  for (std::size_t place = needed.size(); place-- > 0;) {
    if (!needed[place]) continue;
    for (const Item& item : from.items(static_cast<Place>(place))) needed[item.above] = true;
  }
  reset();
  std::vector<Place> moved(needed.size(), dead);
  for (std::size_t place = 0; place < needed.size(); ++place) {
    if (!needed[place]) continue;
    std::vector<Item> items = from.copy_of(static_cast<Place>(place));
    for (Item& item : items) item.above = moved[item.above];
    moved[place] = intern(items);
  }
  for (Place& place : places) place = moved[place];
}

void Stacks::keep(std::span<Place> places) { *this = Stacks(*this, places); }

}  // namespace bantam::inline v0::grammar
