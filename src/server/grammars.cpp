// Grammars that requests bring, compiled once.
#include <algorithm>

#include "server/app.hpp"

namespace bantam::server {

TokenGrammar Grammars::get(GrammarKind kind, const std::string& source) {
  constexpr std::size_t most = 8;
  {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find_if(known_, [&](const Known& k) { return k.kind == kind && k.source == source; });
    if (known != known_.end()) {
      known_.splice(known_.begin(), known_, known);
      return known->grammar;
    }
  }
  // Compiling may take a second, for which nobody else waits.
  const Grammar grammar = kind == GrammarKind::gbnf          ? Grammar::from_gbnf(source)
                          : kind == GrammarKind::json_schema ? Grammar::from_json_schema(source)
                          : kind == GrammarKind::regex       ? Grammar::from_regex(source)
                                                             : Grammar::json_object();
  TokenGrammar made(grammar, trie_);
  const std::lock_guard lock(mutex_);
  known_.push_front({kind, source, made});
  if (known_.size() > most) known_.pop_back();
  return made;
}

}  // namespace bantam::server
