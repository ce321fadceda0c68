// Grammars: the first line is GBNF or a JSON schema, by its first byte; the rest is a text, taken in whole and byte by byte.
#include "bantam/grammar/grammar.hpp"

#include <algorithm>

#include "fuzz/fuzz.hpp"
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
    const Grammar compiled = schema ? Grammar::from_json_schema(source) : Grammar::from_gbnf(source);
    const bool whole = compiled.matches(text);
    const grammar::Automaton automaton(schema ? grammar::read_json_schema(source) : grammar::read_gbnf(source, "root"));
    Stacks stacks(automaton);
    Stacks::Place place = stacks.begin();
    for (const char c : text) {
      const Stacks::Place next = stacks.step(place, static_cast<std::uint8_t>(c));
      place = next;
      stacks.keep({&place, 1});
      require(place == Stacks::dead || !stacks.items(place).empty(), "a place that is alive has items");
    }
    require(stacks.ends(place) == whole, "a text is followed the same way whatever was forgotten on it");
  });
}

const Target grammar_target("grammar", run_grammar);

}  // namespace
}  // namespace bantam::fuzz
