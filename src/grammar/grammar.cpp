// Grammars as users hold them.
#include "bantam/grammar/grammar.hpp"

#include "grammar/data.hpp"
#include "grammar/stacks.hpp"

namespace bantam::inline v0 {

using grammar::Stacks;

Grammar Grammar::from_gbnf(std::string_view text, std::string_view root) {
  return Grammar(std::make_shared<Data>(grammar::read_gbnf(text, root)));
}

Grammar Grammar::from_json_schema(std::string_view schema) { return Grammar(std::make_shared<Data>(grammar::read_json_schema(schema))); }

Grammar Grammar::from_regex(std::string_view pattern) { return Grammar(std::make_shared<Data>(grammar::read_regex(pattern))); }

Grammar Grammar::json_object() { return from_json_schema(R"({"type": "object"})"); }

bool Grammar::matches(std::string_view text) const {
  constexpr std::size_t tidy = std::size_t{1} << 20;
  Stacks stacks(data_->automaton);
  Stacks::Place place = stacks.begin();
  for (const char c : text) {
    place = stacks.step(place, static_cast<std::uint8_t>(c));
    if (place == Stacks::dead) return false;
    if (stacks.size() > tidy) stacks.keep({&place, 1});
  }
  return stacks.ends(place);
}

}  // namespace bantam::inline v0
