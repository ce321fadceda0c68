// Makes rules deterministic one by one, leaves out what cannot end, and refuses left recursion.
#include "grammar/automaton.hpp"

#include <algorithm>
#include <map>

#include "bantam/core/hash.hpp"
#include "grammar/parts.hpp"

namespace bantam::inline v0::grammar {

namespace {

constexpr std::uint32_t no_state = ~std::uint32_t{0};
// A deterministic rule may take this many times the states of what it is made of, and so much room for the sets of them; else its states
// stay as they are, and the text is followed in several of them at once.
constexpr std::size_t blow_up = 8;
constexpr std::size_t free_room = 4096;
constexpr std::size_t free_room_of_all = std::size_t{1} << 22;
constexpr std::size_t most_work = std::size_t{1} << 27;  // steps of splitting bytes: some tenths of a second
constexpr std::size_t most_edges = std::size_t{1} << 22;

}  // namespace

class AutomatonBuilder {
 public:
  AutomatonBuilder(Automaton& out, const Rules& rules) : out_(out), rules_(rules), parts_(rules), seen_(parts_.size(), 0), lowest_(parts_.chains()) {}

  void build() {
    add_state(false);  // the end
    add_state(false);  // the hole
    const auto& entries = parts_.entries();
    // What a rule begins with is entered by calls, so its state is known to them first.
    starts_.resize(entries.size());
    for (std::uint32_t i = 0; i < entries.size(); ++i) {
      if (!deterministic(i)) as_it_is(i);
    }
    out_.root_ = starts_[0];
    out_.root_may_be_empty_ = entries[0].may_be_empty;
    leave_out_dead_ends();
    rank_rules();
    lay_out();
  }

 private:
  struct Edges {
    std::vector<Automaton::ByteEdge> bytes;
    std::vector<std::pair<std::uint32_t, Automaton::State>> calls;  // by entry
    std::vector<Automaton::TokenEdge> tokens;
  };

  Automaton::State add_state(bool accepts) {
    states_.emplace_back();
    accepts_.push_back(accepts);
    return static_cast<Automaton::State>(states_.size() - 1);
  }

  void count_edges(std::size_t more) {
    edges_ += more;
    if (edges_ > most_edges) fail(Errc::unsupported, "grammar: expected at most ", most_edges, " transitions, found more");
  }

  /// What is reached without reading anything, in rising order; `states` in no order.
  std::vector<Parts::State> closure(std::vector<Parts::State> states) {
    ++mark_;
    std::vector<Parts::State> found;
    for (const Parts::State s : states) visit(s, found);
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (const Parts::Edge& edge : parts_.edges(found[i])) {
        const bool empty_call = edge.kind == Parts::Kind::call && parts_.entries()[parts_.entry_of(edge.symbol)].may_be_empty;
        if (edge.kind == Parts::Kind::empty || empty_call) visit(edge.to, found);
      }
    }
    // What has nothing but empty edges tells no sets apart.
    std::erase_if(found, [&](Parts::State s) {
      const auto edges = parts_.edges(s);
      return s != end_ && std::ranges::all_of(edges, [](const Parts::Edge& e) { return e.kind == Parts::Kind::empty; });
    });
    std::ranges::sort(found);
    return found;
  }
  void visit(Parts::State s, std::vector<Parts::State>& found) {
    if (seen_[s] == mark_) return;
    if (const std::uint32_t chain = parts_.chain_of(s); chain != Parts::no_chain) {
      // What leaves fewer rounds adds nothing. Without this each round would go on as all later ones do.
      auto& [mark, lowest] = lowest_[chain];
      if (mark == mark_ && lowest < s) return;
      mark = mark_, lowest = s;
    }
    seen_[s] = mark_;
    found.push_back(s);
  }

  /// The subset construction. False where it would grow too far; nothing is left of it then.
  bool deterministic(std::uint32_t entry) {
    const std::size_t states_before = states_.size();
    const std::size_t edges_before = edges_;
    const auto& e = parts_.entries()[entry];
    const Parts::State first = e.start;
    // Entries are built one after the other, so that a rule's states lie between its start and the next one's.
    const std::size_t own = (entry + 1 < parts_.entries().size() ? parts_.entries()[entry + 1].start : parts_.size()) - first;
    const std::size_t room = std::min(free_room + blow_up * own, room_left_);
    end_ = e.end;
    std::size_t held = 0;
    HashMap<std::string, Automaton::State> known;
    std::vector<std::vector<Parts::State>> sets;
    const auto state_of = [&](std::vector<Parts::State> targets) {
      std::vector<Parts::State> set = closure(std::move(targets));
      const std::string_view key(reinterpret_cast<const char*>(set.data()), set.size() * sizeof(Parts::State));
      if (const auto at = known.find(key); at != known.end()) return at->second;
      const Automaton::State state = add_state(std::ranges::binary_search(set, end_));
      known.emplace(std::string(key), state);
      held += set.size();
      sets.push_back(std::move(set));
      return state;
    };
    // Loops back to the beginning go to a state of its own: this one is left by reading alone, and accepts nothing.
    starts_[entry] = add_state(false);
    sets.push_back(closure({first}));
    for (std::size_t i = 0; i < sets.size(); ++i) {
      if (held > room || work_ > most_work) {
        room_left_ -= std::min(room_left_, held);
        states_.resize(states_before);
        accepts_.resize(states_before);
        edges_ = edges_before;
        return false;
      }
      const std::vector<Parts::State> set = sets[i];
      Edges edges;
      split_bytes(set, edges, state_of);
      std::map<std::uint32_t, std::vector<Parts::State>> calls, tokens;
      for (const Parts::State s : set) {
        for (const Parts::Edge& edge : parts_.edges(s)) {
          if (edge.kind == Parts::Kind::call) calls[parts_.entry_of(edge.symbol)].push_back(edge.to);
          if (edge.kind == Parts::Kind::token) tokens[edge.symbol].push_back(edge.to);
        }
      }
      for (auto& [called, targets] : calls) edges.calls.emplace_back(called, state_of(std::move(targets)));
      for (auto& [token, targets] : tokens) edges.tokens.push_back({token, state_of(std::move(targets))});
      count_edges(edges.bytes.size() + edges.calls.size() + edges.tokens.size());
      states_[states_before + i] = std::move(edges);
    }
    room_left_ -= std::min(room_left_, held);
    return true;
  }

  template <class StateOf>
  void split_bytes(const std::vector<Parts::State>& set, Edges& edges, const StateOf& state_of) {
    std::vector<Parts::Edge> found;
    bool borders[257] = {};
    for (const Parts::State s : set) {
      for (const Parts::Edge& edge : parts_.edges(s)) {
        if (edge.kind != Parts::Kind::bytes) continue;
        found.push_back(edge);
        borders[edge.first] = true;
        borders[edge.last + 1] = true;
      }
    }
    if (found.empty()) return;
    if (found.size() == 1) {
      edges.bytes.push_back({found[0].first, found[0].last, state_of({found[0].to})});
      return;
    }
    for (unsigned first = 0; first < 256;) {
      unsigned last = first;
      while (last < 255 && !borders[last + 1]) ++last;
      work_ += found.size();
      std::vector<Parts::State> targets;
      for (const Parts::Edge& edge : found) {
        if (edge.first <= first && edge.last >= last) targets.push_back(edge.to);
      }
      if (!targets.empty()) {
        const Automaton::State to = state_of(std::move(targets));
        if (!edges.bytes.empty() && edges.bytes.back().to == to && edges.bytes.back().last + 1U == first) {
          edges.bytes.back().last = static_cast<std::uint8_t>(last);
        } else {
          edges.bytes.push_back({static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last), to});
        }
      }
      first = last + 1;
    }
  }

  /// Without empty edges, and no more than that.
  void as_it_is(std::uint32_t entry) {
    const auto& e = parts_.entries()[entry];
    end_ = e.end;
    HashMap<Parts::State, Automaton::State> known;
    std::vector<Parts::State> order;
    const auto state_of = [&](Parts::State part) {
      if (const auto at = known.find(part); at != known.end()) return at->second;
      const std::vector<Parts::State> reached = closure({part});
      count_edges(reached.size());
      const Automaton::State state = add_state(std::ranges::binary_search(reached, end_));
      known.emplace(part, state);
      order.push_back(part);
      return state;
    };
    const std::size_t before = states_.size();
    starts_[entry] = add_state(false);
    order.push_back(e.start);
    for (std::size_t i = 0; i < order.size(); ++i) {
      Edges edges;
      const std::vector<Parts::State> reached = closure({order[i]});
      for (const Parts::State s : reached) {
        for (const Parts::Edge& edge : parts_.edges(s)) {
          if (edge.kind == Parts::Kind::empty) continue;
          count_edges(1);
          const Automaton::State to = state_of(edge.to);
          if (edge.kind == Parts::Kind::bytes) edges.bytes.push_back({edge.first, edge.last, to});
          if (edge.kind == Parts::Kind::call) edges.calls.emplace_back(parts_.entry_of(edge.symbol), to);
          if (edge.kind == Parts::Kind::token) edges.tokens.push_back({edge.symbol, to});
        }
      }
      states_[before + i] = std::move(edges);
    }
  }

  /// Backwards from what accepts; a call waits until its rule is known to match something. Linear.
  void leave_out_dead_ends() {
    const std::size_t count = states_.size();
    std::vector<std::vector<Automaton::State>> before(count);
    std::vector<std::vector<std::pair<std::uint32_t, Automaton::State>>> calls_before(count);
    for (Automaton::State s = 0; s < count; ++s) {
      for (const auto& edge : states_[s].bytes) before[edge.to].push_back(s);
      for (const auto& edge : states_[s].tokens) before[edge.to].push_back(s);
      for (const auto& [entry, to] : states_[s].calls) calls_before[to].emplace_back(entry, s);
    }
    std::vector<bool> live(count, false), matches(starts_.size(), false);
    std::vector<std::vector<Automaton::State>> waiting(starts_.size());
    std::vector<std::uint32_t> entry_of(count, no_state);
    for (std::uint32_t i = 0; i < starts_.size(); ++i) entry_of[starts_[i]] = i;
    std::vector<Automaton::State> work;
    const auto reach = [&](Automaton::State s) {
      if (live[s]) return;
      live[s] = true;
      work.push_back(s);
    };
    for (Automaton::State s = 0; s < count; ++s) {
      if (accepts_[s]) reach(s);
    }
    while (!work.empty()) {
      const Automaton::State s = work.back();
      work.pop_back();
      for (const Automaton::State from : before[s]) reach(from);
      for (const auto& [entry, from] : calls_before[s]) {
        if (matches[entry]) {
          reach(from);
        } else {
          waiting[entry].push_back(from);
        }
      }
      if (entry_of[s] == no_state) continue;
      matches[entry_of[s]] = true;
      for (const Automaton::State from : waiting[entry_of[s]]) reach(from);
    }
    if (!live[starts_[0]] && !out_.root_may_be_empty_) {
      fail(Errc::invalid_argument, "grammar: expected a rule ", root_name(0), " that matches a text, found one that cannot end");
    }
    for (Edges& edges : states_) {
      std::erase_if(edges.bytes, [&](const auto& edge) { return !live[edge.to]; });
      std::erase_if(edges.tokens, [&](const auto& edge) { return !live[edge.to]; });
      std::erase_if(edges.calls, [&](const auto& edge) { return !live[edge.second] || !matches[edge.first]; });
    }
  }

  [[nodiscard]] std::string root_name(std::uint32_t entry) const { return printable(rules_.rules()[parts_.entries()[entry].rule].name); }

  /// Depth first along calls from first states; a rule that is met again on the way there is left-recursive.
  void rank_rules() {
    const std::size_t count = starts_.size();
    ranks_.assign(count, 0);
    enum : std::uint8_t { fresh, open, done };
    std::vector<std::uint8_t> progress(count, fresh);
    auto rank = static_cast<std::uint32_t>(count);
    std::vector<std::pair<std::uint32_t, std::size_t>> path;
    for (std::uint32_t first = 0; first < count; ++first) {
      if (progress[first] != fresh) continue;
      path.emplace_back(first, 0);
      progress[first] = open;
      while (!path.empty()) {
        auto& [entry, next] = path.back();
        const auto& calls = states_[starts_[entry]].calls;
        if (next == calls.size()) {
          progress[entry] = done;
          ranks_[entry] = --rank;
          path.pop_back();
          continue;
        }
        const std::uint32_t called = calls[next++].first;
        if (progress[called] == open) {
          std::string way;
          auto at = std::ranges::find(path, called, &std::pair<std::uint32_t, std::size_t>::first);
          for (; at != path.end() && way.size() < 200; ++at) way += root_name(at->first) + " -> ";
          fail(Errc::invalid_argument, "grammar: expected no left recursion, found ", way, root_name(called));
        }
        if (progress[called] == fresh) {
          progress[called] = open;
          path.emplace_back(called, 0);
        }
      }
    }
  }

  void lay_out() {
    out_.states_.resize(states_.size());
    for (std::size_t s = 0; s < states_.size(); ++s) {
      out_.states_[s] = {static_cast<std::uint32_t>(out_.bytes_.size()), static_cast<std::uint32_t>(out_.calls_.size()),
                         static_cast<std::uint32_t>(out_.tokens_.size()), accepts_[s]};
      out_.bytes_.insert(out_.bytes_.end(), states_[s].bytes.begin(), states_[s].bytes.end());
      out_.tokens_.insert(out_.tokens_.end(), states_[s].tokens.begin(), states_[s].tokens.end());
      for (const auto& [entry, to] : states_[s].calls) out_.calls_.push_back({starts_[entry], ranks_[entry], to});
    }
  }

  Automaton& out_;
  const Rules& rules_;
  Parts parts_;
  std::vector<std::uint32_t> seen_;
  std::vector<std::pair<std::uint32_t, Parts::State>> lowest_;  ///< by chain: at which mark, and the lowest of its states
  std::uint32_t mark_ = 0;
  Parts::State end_ = 0;
  std::vector<Edges> states_;
  std::vector<bool> accepts_;
  std::vector<Automaton::State> starts_;
  std::vector<std::uint32_t> ranks_;
  std::size_t edges_ = 0;
  std::size_t work_ = 0;
  std::size_t room_left_ = free_room_of_all + blow_up * parts_.size();
};

Automaton::Automaton(const Rules& rules) { AutomatonBuilder(*this, rules).build(); }

}  // namespace bantam::inline v0::grammar
