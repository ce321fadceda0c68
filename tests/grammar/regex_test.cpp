// Regular expressions as grammars.
#include <regex>

#include "bantam/grammar/grammar.hpp"
#include "support.hpp"

namespace bantam::test {

TEST_CASE("a regular expression allows the texts that it is the whole of") {
  struct Case {
    const char* pattern;
    std::vector<const char*> yes, no;
  };
  const Case cases[] = {
      {"yes|no", {"yes", "no"}, {"", "yesno", "maybe", " yes"}},
      {"^[a-c]+\\d{2,3}$", {"a12", "cab123"}, {"12", "d12", "a1", "a1234"}},
      {"(?:ab)*c?", {"", "c", "ab", "ababc"}, {"a", "abcc", "ba"}},
      {"\"[^\"\\\\]*\"\\.", {"\"x\".", "\"\"."}, {"\"x\"", "\"\"\".", "x."}},
      {"\\w+@\\w+\\.(com|org)", {"a_1@b.org"}, {"a@b.net", "@b.org"}},
      {".", {"x", "\xc3\xa9", "\xf0\x9f\x98\x80"}, {"", "\n", "xy"}},
      {"[^a]", {"b", "\n", "\""}, {"a", ""}},
      {"a{0}b", {"b"}, {"ab"}},
  };
  for (const Case& one : cases) {
    CAPTURE(one.pattern);
    const Grammar grammar = Grammar::from_regex(one.pattern);
    for (const char* text : one.yes) {
      CAPTURE(text);
      CHECK(grammar.matches(text));
    }
    for (const char* text : one.no) {
      CAPTURE(text);
      CHECK_FALSE(grammar.matches(text));
    }
  }
}

TEST_CASE("regular expressions agree with the standard library's") {
  Random random(3);
  const auto below = [&](std::size_t count) { return static_cast<std::size_t>(random.uniform() * static_cast<double>(count)); };
  for (int i = 0; i < 300; ++i) {
    constexpr const char* parts[] = {"a", "b", "[ab]", "(?:a|bc)", "c", "(?:ab)", "[^a]", "."};
    constexpr const char* counts[] = {"", "", "*", "+", "?", "{2}", "{1,2}"};
    std::string pattern;
    for (std::size_t j = 1 + below(4); j > 0; --j) pattern += std::string(parts[below(std::size(parts))]) + counts[below(std::size(counts))] + (below(6) == 0 ? "|" : "");
    CAPTURE(pattern);
    const std::regex known(pattern, std::regex::ECMAScript);
    const Grammar grammar = Grammar::from_regex(pattern);
    for (int j = 0; j < 60; ++j) {
      std::string text;
      for (std::size_t k = below(7); k > 0; --k) text += "abc"[below(3)];
      CAPTURE(text);
      CHECK(grammar.matches(text) == std::regex_match(text, known));
    }
  }
}

TEST_CASE("what is no regular expression is refused with the byte") {
  const auto refused = [](const std::string& pattern) { return error_of([&] { (void)Grammar::from_regex(pattern); }); };
  has(refused("a("), "regex: byte 2");
  has(refused("(?=a)"), "a group without assertion");
  has(refused("*"), "regex: byte 0");
  has(refused("[b-a]"), "a range that rises");
  has(refused("a{2,1}"), "repetitions");
  has(refused("a{99999}"), "at most");
  has(refused("a\\b"), "behind \\");
  has(refused(std::string(200, '(')), "groups in each other");
  has(refused(std::string(std::size_t{2} << 20, 'a')), "bytes");
  CHECK(refused("[]").size() > 0);
}

}  // namespace bantam::test
