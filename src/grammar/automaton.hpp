// Rules as automata over bytes that call each other.
#pragma once

#include <span>
#include <vector>

#include "grammar/rules.hpp"

namespace bantam::inline v0::grammar {

/// States of all rules, numbered through. A rule's first state is entered by calls alone and accepts nothing: rules match at least a
/// byte or a token, and whoever may do without one says so itself. From every state an accepting one can be reached.
class Automaton {
 public:
  using State = std::uint32_t;
  struct ByteEdge {
    std::uint8_t first;
    std::uint8_t last;
    State to;
  };
  /// Goes through a rule.
  struct CallEdge {
    State start;         ///< the rule's
    std::uint32_t rank;  ///< above those of all rules that can call it before they have read anything
    State to;
  };
  struct TokenEdge {
    std::uint32_t token;  ///< in Rules::tokens()
    State to;
  };

  /// States that no rule has: the ends of what a stack may stand on.
  static constexpr State end = 0;
  static constexpr State hole = 1;

  /// Throws invalid_argument for left recursion and for a root that matches no text, unsupported for what takes too many states.
  explicit Automaton(const Rules& rules);

  [[nodiscard]] State root() const noexcept { return root_; }
  [[nodiscard]] bool root_may_be_empty() const noexcept { return root_may_be_empty_; }
  [[nodiscard]] bool accepts(State state) const noexcept { return states_[state].accepts; }
  [[nodiscard]] std::span<const ByteEdge> bytes(State state) const noexcept { return part(bytes_, state, &Offsets::bytes); }
  [[nodiscard]] std::span<const CallEdge> calls(State state) const noexcept { return part(calls_, state, &Offsets::calls); }
  [[nodiscard]] std::span<const TokenEdge> tokens(State state) const noexcept { return part(tokens_, state, &Offsets::tokens); }
  [[nodiscard]] std::size_t size() const noexcept { return states_.size(); }

 private:
  friend class AutomatonBuilder;
  struct Offsets {
    std::uint32_t bytes = 0, calls = 0, tokens = 0;
    bool accepts = false;
  };
  template <class Edge>
  [[nodiscard]] std::span<const Edge> part(const std::vector<Edge>& edges, State state, std::uint32_t Offsets::*offset) const noexcept {
    const std::uint32_t first = states_[state].*offset;
    const std::size_t last = state + 1 < states_.size() ? states_[state + 1].*offset : edges.size();
    return std::span(edges).subspan(first, last - first);
  }

  std::vector<Offsets> states_;
  std::vector<ByteEdge> bytes_;
  std::vector<CallEdge> calls_;
  std::vector<TokenEdge> tokens_;
  State root_ = 0;
  bool root_may_be_empty_ = false;
};

}  // namespace bantam::inline v0::grammar
