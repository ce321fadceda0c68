// Characters of JSON strings.
#include "grammar/json_strings.hpp"

#include <algorithm>
#include <map>

namespace bantam::inline v0::grammar {

namespace {

const CharSet& must_be_escaped() {
  static const CharSet set{{0, 0x1f}, {'"', '"'}, {'\\', '\\'}};
  return set;
}

constexpr std::pair<char, std::uint32_t> short_escapes[] = {{'"', '"'}, {'\\', '\\'}, {'b', 8}, {'f', 12}, {'n', 10}, {'r', 13}, {'t', 9}};

std::string escape_of(std::uint32_t code) {
  for (const auto& [letter, meant] : short_escapes) {
    if (meant == code) return {'\\', letter};
  }
  constexpr char hex[] = "0123456789abcdef";
  return {'\\', 'u', '0', '0', hex[code >> 4 & 15], hex[code & 15]};
}

}  // namespace

Expr json_character(Rules& rules) {
  const auto hex = [&](std::int32_t count) { return rules.repeat(rules.chars({{'0', '9'}, {'a', 'f'}, {'A', 'F'}}), count, count); };
  const auto one_of = [&](std::string_view letters) {
    std::vector<CharRange> ranges;
    for (const char c : letters) ranges.push_back({static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(c)});
    return rules.chars(CharSet(std::move(ranges)));
  };
  // Halves of a pair come together: alone they are no character.
  const Expr plain_unit = rules.choice({rules.sequence({one_of("0123456789abcefABCEF"), hex(3)}), rules.sequence({one_of("dD"), one_of("01234567"), hex(2)})});
  const Expr pair = rules.sequence({one_of("dD"), one_of("89abAB"), hex(2), rules.text("\\u"), one_of("dD"), one_of("cdefCDEF"), hex(2)});
  return rules.choice({rules.chars(must_be_escaped().negated()),
                       rules.sequence({rules.text("\\"), rules.choice({one_of("\"\\/bfnrt"), rules.sequence({rules.text("u"), rules.choice({plain_unit, pair})})})})});
}

Expr json_characters_of(Rules& rules, const CharSet& set) {
  std::vector<Expr> ways;
  if (CharSet plain = set.without(must_be_escaped()); !plain.ranges().empty()) ways.push_back(rules.chars(std::move(plain)));
  for (const CharRange& range : must_be_escaped().ranges()) {
    for (std::uint32_t code = range.first; code <= range.last; ++code) {
      if (set.holds(code)) ways.push_back(rules.text(escape_of(code)));
    }
  }
  return rules.choice(std::move(ways));
}

Expr json_text(Rules& rules, std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto code = static_cast<std::uint32_t>(static_cast<unsigned char>(c));
    if (code < 0x80 && must_be_escaped().holds(code)) {
      escaped += escape_of(code);
    } else {
      escaped += c;
    }
  }
  return rules.text(escaped);
}

namespace {

/// A tree of the texts to avoid.
struct Avoided {
  std::map<std::uint32_t, Avoided> next;
  bool whole = false;
};

Expr avoid(Rules& rules, const Avoided& node, Expr character, int depth) {
  if (depth > 512) fail(Errc::unsupported, "schema: expected names of properties of at most 512 characters, found a longer one");
  CharSet taken;
  std::vector<Expr> ways;
  for (const auto& [code, child] : node.next) {
    taken = taken.joined({{code, code}});
    ways.push_back(rules.sequence({json_characters_of(rules, {{code, code}}), avoid(rules, child, character, depth + 1)}));
  }
  // As long as a name may still come of it, characters are written as names are: an escape could spell one.
  ways.push_back(rules.sequence({json_characters_of(rules, taken.negated()), rules.repeat(character, 0)}));
  if (!node.whole) ways.push_back(rules.nothing());
  return rules.choice(std::move(ways));
}

}  // namespace

Expr json_text_but(Rules& rules, std::span<const std::string> texts, Expr character) {
  Avoided root;
  for (const std::string& text : texts) {
    Avoided* at = &root;
    std::string_view left = text;
    for (std::uint32_t code = 0; take_utf8(left, code);) at = &at->next[code];
    at->whole = true;
  }
  return avoid(rules, root, character, 0);
}

}  // namespace bantam::inline v0::grammar
