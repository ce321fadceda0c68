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
  find_empty();
  find_small_rules();
  add_entry(0);
  // Building one entry adds those that it calls.
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const State start = add_state();
    const State end = build(rules_.rules()[entries_[i].rule].body, start);
    entries_[i].start = start;
    entries_[i].end = end;
  }
  sort_edges();
}

void Parts::add_entry(Rule rule) {
  entry_of_[rule] = static_cast<std::uint32_t>(entries_.size());
  entries_.push_back({rule, 0, 0, may_be_empty_[rules_.rules()[rule].body]});
}

Parts::State Parts::add_state() {
  if (chain_of_.size() >= most_states) fail(Errc::unsupported, "grammar: expected at most ", most_states, " states, found more: repetitions multiply");
  chain_of_.push_back(no_chain);
  return static_cast<State>(chain_of_.size() - 1);
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
      if (entry_of_[node.first] == unknown) add_entry(node.first);
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
  // x{m,n} is x{0,n} where x may be empty.
  const bool may_be_empty = may_be_empty_[part];
  const std::int32_t least = may_be_empty ? 0 : node.least;
  State at = from;
  for (std::int32_t i = 0; i < least; ++i) at = build(part, at);
  if (node.most == Rules::unbounded) {
    const State loop = add_state();
    empty(at, loop);
    empty(build(part, loop), loop);
    return loop;
  }
  const State end = add_state();
  const std::uint32_t chain = may_be_empty ? chains_++ : no_chain;
  for (std::int32_t i = least; i < node.most; ++i) {
    State round = at;
    if (may_be_empty) {
      round = add_state();
      chain_of_[round] = chain;
      empty(at, round);
    }
    empty(round, end);
    at = build(part, round);
    if (at == round) break;  // nothing, however often
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

/// Linear: an expression waits for those of its parts that have to be empty with it.
void Parts::find_empty() {
  const std::size_t count = rules_.size();
  may_be_empty_.assign(count, false);
  std::vector<std::uint32_t> waits(count, 1);
  std::vector<std::vector<Expr>> parents(count);
  std::vector<Expr> work;
  for (Expr expr = 0; expr < count; ++expr) {
    const Rules::Node& node = rules_.node(expr);
    switch (node.kind) {
      case Rules::Kind::text: waits[expr] = rules_.text_of(node).empty() ? 0 : 1; break;
      case Rules::Kind::repeat: waits[expr] = node.least == 0 ? 0 : 1; break;
      case Rules::Kind::sequence: waits[expr] = node.count; break;
      case Rules::Kind::rule: parents[rules_.rules()[node.first].body].push_back(expr); break;
      case Rules::Kind::chars:
      case Rules::Kind::choice:
      case Rules::Kind::token: break;
    }
    if (node.kind == Rules::Kind::repeat || node.kind == Rules::Kind::sequence || node.kind == Rules::Kind::choice) {
      for (std::uint32_t i = 0; i < node.count; ++i) parents[rules_.link(node, i)].push_back(expr);
    }
    if (waits[expr] == 0) work.push_back(expr);
  }
  while (!work.empty()) {
    const Expr expr = work.back();
    work.pop_back();
    may_be_empty_[expr] = true;
    for (const Expr parent : parents[expr]) {
      if (waits[parent] > 0 && --waits[parent] == 0) work.push_back(parent);
    }
  }
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
  const std::size_t count = chain_of_.size();
  offsets_.assign(count + 1, 0);
  for (const Edge& edge : edges_) ++offsets_[edge.from + 1];
  for (std::size_t i = 0; i < count; ++i) offsets_[i + 1] += offsets_[i];
  std::vector<std::uint32_t> next(offsets_.begin(), offsets_.end() - 1);
  std::vector<Edge> sorted(edges_.size());
  for (const Edge& edge : edges_) sorted[next[edge.from]++] = edge;
  edges_ = std::move(sorted);
}

}  // namespace bantam::inline v0::grammar
