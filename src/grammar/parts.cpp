// Thompson's construction over UTF-8, with small rules put into their callers.
#include "grammar/parts.hpp"

#include <algorithm>
#include <utility>

namespace bantam::inline v0::grammar {

namespace {

constexpr std::uint32_t unknown = ~std::uint32_t{0};
// A schema with strings of up to 10 000 characters takes 200 000.
constexpr std::size_t most_states = 1 << 20;
// Rules of up to so many states join their callers: a call costs more than that at run time, and tokens may then cross its borders.
constexpr std::uint32_t small_states = 48;
// A set of more characters than that is passed by most of a vocabulary, and what is known of that is kept for each state: rules that repeat
// one, such as strings, are not copied.
constexpr std::uint64_t wide_set = 256;

/// Calls put(bytes) with ranges of bytes, 1 to 4 of them, that together spell the code points of a range.
template <class Put>
void spell(std::uint32_t first, std::uint32_t last, Put&& put) {
  constexpr std::uint32_t ends[] = {0x7f, 0x7ff, 0xd7ff, 0xdfff, 0xffff, CharSet::last_code_point};
  for (const std::uint32_t end : ends) {
    if (first > last) return;
    if (first > end) continue;
    const std::uint32_t stop = std::min(last, end);
    if (end != 0xdfff) {  // surrogates have no UTF-8
      const std::size_t tails = end <= 0x7f ? 0 : end <= 0x7ff ? 1 : end <= 0xffff ? 2 : 3;
      // Cut where the bytes behind the first that differs do not go through all their values.
      std::uint32_t begin = first;
      while (begin <= stop) {
        std::uint32_t part = stop;
        for (std::size_t tail = tails; tail > 0; --tail) {
          const std::uint32_t mask = (1U << (6 * tail)) - 1;
          if ((begin & ~mask) == (part & ~mask)) continue;
          if ((begin & mask) != 0) {
            part = begin | mask;
          } else if ((part & mask) != mask) {
            part = (part & ~mask) - 1;
          }
        }
        std::string low, high;
        put_utf8(low, begin);
        put_utf8(high, part);
        put(low, high);
        begin = part + 1;
      }
    }
    first = stop + 1;
  }
}

}  // namespace

Parts::Parts(const Rules& rules) : rules_(rules), entry_of_(rules.rules().size(), unknown) {
  find_small_rules();
  entry_of_[0] = 0;
  entries_.push_back({0, 0, 0});
  // Building one entry adds those that it calls.
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const State start = add_state();
    const State end = build(rules_.rules()[entries_[i].rule].body, start);
    entries_[i].start = start;
    entries_[i].end = end;
  }
  sort_edges();
  find_empty_rules();
}

Parts::State Parts::add_state() {
  if (states_ >= most_states) fail(Errc::unsupported, "grammar: expected at most ", most_states, " states, found more: repetitions multiply");
  return static_cast<State>(states_++);
}

void Parts::add_edge(Edge edge) {
  if (edges_.size() >= 4 * most_states) fail(Errc::unsupported, "grammar: expected at most ", 4 * most_states, " transitions, found more");
  edges_.push_back(edge);
}

// Expressions nest as deeply as their readers let them, and small rules less deeply than they have states.
Parts::State Parts::build(Expr expr, State from) {
  const Rules::Node& node = rules_.node(expr);
  switch (node.kind) {
    case Rules::Kind::text: {
      State at = from;
      for (const char c : rules_.text_of(node)) {
        const State next = add_state();
        add_edge({at, next, 0, Kind::bytes, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c)});
        at = next;
      }
      return at;
    }
    case Rules::Kind::chars: return build_chars(rules_.set_of(node), from);
    case Rules::Kind::sequence: {
      State at = from;
      for (std::uint32_t i = 0; i < node.count; ++i) at = build(rules_.link(node, i), at);
      return at;
    }
    case Rules::Kind::choice: {
      const State end = add_state();
      for (std::uint32_t i = 0; i < node.count; ++i) empty(build(rules_.link(node, i), from), end);
      return end;
    }
    case Rules::Kind::repeat: return build_repeat(node, from);
    case Rules::Kind::rule: {
      if (small_[node.first]) return build(rules_.rules()[node.first].body, from);
      if (entry_of_[node.first] == unknown) {
        entry_of_[node.first] = static_cast<std::uint32_t>(entries_.size());
        entries_.push_back({node.first, 0, 0});
      }
      const State end = add_state();
      add_edge({from, end, node.first, Kind::call, 0, 0});
      return end;
    }
    case Rules::Kind::token: {
      const State end = add_state();
      add_edge({from, end, node.first, Kind::token, 0, 0});
      return end;
    }
  }
  return from;
}

Parts::State Parts::build_repeat(const Rules::Node& node, State from) {
  const Expr part = rules_.link(node, 0);
  State at = from;
  for (std::int32_t i = 0; i < node.least; ++i) {
    const State next = build(part, at);
    if (next == at) break;  // nothing, however often
    at = next;
  }
  if (node.most == Rules::unbounded) {
    const State loop = add_state();
    empty(at, loop);
    empty(build(part, loop), loop);
    return loop;
  }
  const State end = add_state();
  for (std::int32_t i = node.least; i < node.most; ++i) {
    empty(at, end);
    at = build(part, at);
  }
  empty(at, end);
  return end;
}

Parts::State Parts::build_chars(const CharSet& set, State from) {
  const State end = add_state();
  // tails[n] lies n full bytes in front of the end.
  State tails[4] = {end, unknown, unknown, unknown};
  const auto tail = [&](std::size_t count) {
    for (std::size_t i = 1; i <= count; ++i) {
      if (tails[i] != unknown) continue;
      tails[i] = add_state();
      add_edge({tails[i], tails[i - 1], 0, Kind::bytes, 0x80, 0xbf});
    }
    return tails[count];
  };
  for (const CharRange& range : set.ranges()) {
    spell(range.first, range.last, [&](const std::string& low, const std::string& high) {
      const auto byte = [](const std::string& text, std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
      std::size_t full = 0;
      while (full + 1 < low.size() && byte(low, low.size() - 1 - full) == 0x80 && byte(high, low.size() - 1 - full) == 0xbf) ++full;
      State at = from;
      for (std::size_t i = 0; i + full < low.size(); ++i) {
        const State next = i + full + 1 == low.size() ? tail(full) : add_state();
        add_edge({at, next, 0, Kind::bytes, byte(low, i), byte(high, i)});
        at = next;
      }
    });
  }
  return end;
}

/// Rules that call none but small ones, and come to few states.
void Parts::find_small_rules() {
  const std::size_t count = rules_.rules().size();
  small_.assign(count, false);
  enum : std::uint8_t { fresh, open, done };
  std::vector<std::uint8_t> progress(count, fresh);
  std::vector<std::uint32_t> sizes(count, unknown);
  std::vector<bool> wide_rules(count, false);
  bool wide = false;
  const auto too_large = small_states + 1;
  // The states of an expression, too_large of what is no part of a small rule; a rule that is to be looked at first goes to `needs`.
  std::vector<Rule> needs;
  const auto size_of = [&](const auto& self, Expr expr, int depth) -> std::uint32_t {
    if (depth > static_cast<int>(small_states)) return too_large;
    const Rules::Node& node = rules_.node(expr);
    std::uint32_t sum = 0;
    switch (node.kind) {
      case Rules::Kind::text: return static_cast<std::uint32_t>(std::min<std::size_t>(rules_.text_of(node).size(), too_large));
      case Rules::Kind::chars:
        if (rules_.set_of(node).count() <= wide_set) return 2;
        wide = true;
        return 12;  // of four lengths of UTF-8
      case Rules::Kind::token: return 1;
      case Rules::Kind::rule:
        if (progress[node.first] == fresh) needs.push_back(node.first);
        if (wide_rules[node.first]) wide = true;
        return progress[node.first] == done ? std::min(sizes[node.first] + 1, too_large) : too_large;  // also what names alone are nests
      case Rules::Kind::repeat: {
        const auto times = static_cast<std::uint32_t>(std::max({node.least, node.most, 1}));
        const bool before = std::exchange(wide, false);
        const std::uint32_t once = self(self, rules_.link(node, 0), depth + 1);
        const bool repeats_wide = wide && node.most != 1;
        wide |= before;
        return repeats_wide || times > too_large || once > too_large ? too_large : std::min(too_large, times * (once + 1));
      }
      case Rules::Kind::sequence:
      case Rules::Kind::choice:
        for (std::uint32_t i = 0; i < node.count; ++i) {
          sum += 1 + self(self, rules_.link(node, i), depth + 1);
          if (sum >= too_large) sum = too_large;
        }
        return sum;
    }
    return sum;
  };
  std::vector<Rule> stack;
  for (Rule first = 0; first < count; ++first) {
    if (progress[first] == fresh) stack.push_back(first);
    while (!stack.empty()) {
      const Rule rule = stack.back();
      if (progress[rule] == done) {
        stack.pop_back();
        continue;
      }
      needs.clear();
      progress[rule] = open;
      wide = false;
      const std::uint32_t size = size_of(size_of, rules_.rules()[rule].body, 0);
      if (!needs.empty()) {
        stack.insert(stack.end(), needs.begin(), needs.end());
        continue;
      }
      sizes[rule] = size;
      wide_rules[rule] = wide;
      small_[rule] = size <= small_states;
      progress[rule] = done;
      stack.pop_back();
    }
  }
}

void Parts::sort_edges() {
  offsets_.assign(states_ + 1, 0);
  for (const Edge& edge : edges_) ++offsets_[edge.from + 1];
  for (std::size_t i = 0; i < states_; ++i) offsets_[i + 1] += offsets_[i];
  std::vector<std::uint32_t> next(offsets_.begin(), offsets_.end() - 1);
  std::vector<Edge> sorted(edges_.size());
  for (const Edge& edge : edges_) sorted[next[edge.from]++] = edge;
  edges_ = std::move(sorted);
}

/// Linear: an edge waits for the rule that it calls to turn out empty.
void Parts::find_empty_rules() {
  std::vector<bool> reached(states_, false);
  std::vector<std::vector<State>> waiting(entries_.size());
  std::vector<std::uint32_t> ends(states_, unknown);
  for (std::uint32_t i = 0; i < entries_.size(); ++i) ends[entries_[i].end] = i;
  std::vector<State> work;
  const auto reach = [&](State state) {
    if (reached[state]) return;
    reached[state] = true;
    work.push_back(state);
  };
  for (const Entry& entry : entries_) reach(entry.start);
  while (!work.empty()) {
    const State state = work.back();
    work.pop_back();
    if (ends[state] != unknown && !entries_[ends[state]].may_be_empty) {
      entries_[ends[state]].may_be_empty = true;
      for (const State freed : waiting[ends[state]]) reach(freed);
    }
    for (const Edge& edge : edges(state)) {
      if (edge.kind == Kind::empty) reach(edge.to);
      if (edge.kind != Kind::call) continue;
      if (entries_[entry_of_[edge.symbol]].may_be_empty) {
        reach(edge.to);
      } else {
        waiting[entry_of_[edge.symbol]].push_back(edge.to);
      }
    }
  }
}

}  // namespace bantam::inline v0::grammar
