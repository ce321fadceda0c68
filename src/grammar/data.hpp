// What a grammar holds.
#pragma once

#include "bantam/grammar/grammar.hpp"
#include "grammar/automaton.hpp"

namespace bantam::inline v0 {

struct Grammar::Data {
  explicit Data(const grammar::Rules& rules) : tokens(rules.tokens()), automaton(rules) {}
  std::vector<grammar::TokenName> tokens;
  grammar::Automaton automaton;
};

}  // namespace bantam::inline v0
