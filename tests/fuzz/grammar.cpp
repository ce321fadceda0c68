// Grammars: the first line is GBNF or a JSON schema, by its first byte; the rest is a text, followed with all that was met kept and without.
#include <algorithm>

#include "bantam/grammar/grammar.hpp"
#include "fuzz/fuzz.hpp"
#include "grammar/automaton.hpp"
#include "grammar/rules.hpp"
#include "grammar/stacks.hpp"

namespace bantam::fuzz {

namespace {

using grammar::Stacks;

void run_grammar(Bytes bytes) {
  const std::string_view input = text_of(bytes);
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string_view text = input.substr(std::min(line + 1, input.size())).substr(0, 200);
  survives([&] {
    // Rules of GBNF stand on one line each: ; is a line's end here.
    std::string source(input.substr(0, line));
    const bool schema = source.starts_with('{');
    if (!schema) std::replace(source.begin(), source.end(), ';', '\n');
    const grammar::Automaton automaton(schema ? grammar::read_json_schema(source) : grammar::read_gbnf(source, "root"));
    Stacks kept(automaton), forgetting(automaton);
    Stacks::Place whole = kept.begin(), place = forgetting.begin();
    for (const char c : text) {
      whole = kept.step(whole, static_cast<std::uint8_t>(c));
      place = forgetting.step(place, static_cast<std::uint8_t>(c));
      forgetting.keep({&place, 1});
      require(place == Stacks::dead || !forgetting.items(place).empty(), "a place that is alive has items");
    }
    require(kept.ends(whole) == forgetting.ends(place), "a text is followed the same way whatever was forgotten on it");
    // The largest that are taken, of 200 000 states, take seconds under sanitizers: they are compiled once.
    if (automaton.size() > 20000) return;
    const Grammar compiled = schema ? Grammar::from_json_schema(source) : Grammar::from_gbnf(source);
    require(compiled.matches(text) == kept.ends(whole), "users' grammars match the same texts");
  });
}

const Target grammar_target("grammar", run_grammar);

}  // namespace
}  // namespace bantam::fuzz
