// Rules as a nondeterministic automaton: what the deterministic one is made of.
#pragma once

#include <span>

#include "grammar/rules.hpp"

namespace bantam::inline v0::grammar {

class Parts {
 public:
  using State = std::uint32_t;
  enum class Kind : std::uint8_t { empty, bytes, call, token };
  struct Edge {
    State from;
    State to;
    std::uint32_t symbol;  ///< the rule or the token
    Kind kind;
    std::uint8_t first, last;
  };

  explicit Parts(const Rules& rules);

  /// Rules that are called, the root first; others are part of their callers, or nobody's.
  struct Entry {
    Rule rule;
    State start;
    State end;
    bool may_be_empty = false;
  };
  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  /// Of the calls' symbols.
  [[nodiscard]] std::uint32_t entry_of(Rule rule) const noexcept { return entry_of_[rule]; }
  [[nodiscard]] std::span<const Edge> edges(State state) const noexcept {
    return std::span(edges_).subspan(offsets_[state], offsets_[state + 1] - offsets_[state]);
  }
  [[nodiscard]] std::size_t size() const noexcept { return offsets_.size() - 1; }

  static constexpr std::uint32_t no_chain = ~std::uint32_t{0};
  /// The repetition x{m,n} of an x that may be empty that a state begins a round of. Of two such states of one repetition the lower matches
  /// all that the higher matches: it has more rounds left.
  [[nodiscard]] std::uint32_t chain_of(State state) const noexcept { return chain_of_[state]; }
  [[nodiscard]] std::size_t chains() const noexcept { return chains_; }

 private:
  void add_entry(Rule rule);
  State add_state();
  void add_edge(Edge edge);
  void empty(State from, State to) { add_edge({from, to, 0, Kind::empty, 0, 0}); }
  [[nodiscard]] State build(Expr expr, State from);
  [[nodiscard]] State build_chars(const CharSet& set, State from);
  [[nodiscard]] State build_repeat(const Rules::Node& node, State from);
  void find_empty();
  void find_small_rules();
  void sort_edges();

  const Rules& rules_;
  std::vector<bool> may_be_empty_;  ///< by expression
  std::vector<bool> small_;         ///< rules that become part of their callers
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> entry_of_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> offsets_;
  std::vector<std::uint32_t> chain_of_;
  std::uint32_t chains_ = 0;
};

}  // namespace bantam::inline v0::grammar
