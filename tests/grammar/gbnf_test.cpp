// GBNF: what is read, what it matches, what is refused.
#include "bantam/grammar/grammar.hpp"

#include <chrono>
#include <optional>

#include "limits.hpp"
#include "reference/grammar.hpp"
#include "support.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

bool matches(const std::string& grammar, const std::string& text) { return Grammar::from_gbnf(grammar).matches(text); }

/// Texts near one that matches: bytes left out, doubled, changed.
std::string mutated(std::string text, Random& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random.uniform() * static_cast<double>(n)); };
  for (std::size_t i = 0; i <= below(2); ++i) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t how = below(3);
    if (how == 0 && at < text.size()) text.erase(at, 1);
    if (how == 1) text.insert(at, 1, "ab\",{}[]:01 -"[below(13)]);
    if (how == 2 && at < text.size()) text[at] = "ab\",{}[]:01 -"[below(13)];
  }
  return text;
}

std::string random_expr(Random& random, int rules, int depth) {
  const auto below = [&](int n) { return static_cast<int>(random.uniform() * n); };
  switch (below(depth > 3 ? 4 : 9)) {
    case 0: return std::string("\"") + "ab"[below(2)] + "\"";
    case 1: return "[a-b]";
    case 2: return "[^a\"]";
    case 3: return "\"\"";
    case 4: return "(" + random_expr(random, rules, depth + 1) + " | " + random_expr(random, rules, depth + 1) + ")";
    case 5: return "(" + random_expr(random, rules, depth + 1) + ")" + std::string("*+?").substr(static_cast<std::size_t>(below(3)), 1);
    case 6: return "(" + random_expr(random, rules, depth + 1) + "){" + std::to_string(below(2)) + "," + std::to_string(1 + below(3)) + "}";
    case 7: return "r" + std::to_string(below(rules));
    default: return random_expr(random, rules, depth + 1) + " " + random_expr(random, rules, depth + 1);
  }
}

}  // namespace

TEST_CASE("literals, classes, groups and repetitions match as llama.cpp's grammars say") {
  CHECK(matches(R"(root ::= "hello" " "? [a-z]+ "!")", "hello world!"));
  CHECK_FALSE(matches(R"(root ::= "hello" " "? [a-z]+ "!")", "hello !"));
  CHECK(matches("root ::= (\"a\" | \"b\")* # words\n", "abba"));
  CHECK(matches("root ::= x{2,3}\nx ::= [^\\n]", "\xc3\xa9\xe2\x82\xac"));
  CHECK_FALSE(matches("root ::= x{2,3}\nx ::= [^\\n]", "\xc3\xa9\xe2\x82"));
  CHECK(matches("root ::= \"\\u00e9\\x41\\U0001F600\\t\"", "\xc3\xa9" "A\xf0\x9f\x98\x80\t"));
  CHECK(matches("root ::= . .", "\n\xf0\x9f\x98\x80"));
  CHECK(matches("root ::=\n  \"a\" |\n  \"b\"\n", "b"));
  CHECK(matches("root ::= \"a\"\n  | \"b\"", "b"));
  CHECK(matches("root ::= [a\\]-]+", "a]-"));
  CHECK(matches("root ::= \"a\"{3}", "aaa"));
  CHECK_FALSE(matches("root ::= \"ab\"{3}", "abb"));
  CHECK(matches("root ::= \"ab\"{2,}", "ababab"));
  CHECK(matches("root ::= \"(\" root \")\" | \"\"", "((()))"));
  CHECK_FALSE(matches("root ::= \"(\" root \")\" | \"\"", "((())"));
  CHECK(Grammar::from_gbnf("a ::= \"x\"", "a").matches("x"));
  CHECK(Grammar::from_gbnf("root ::= \"a\"* \"b\"?").matches(""));
}

TEST_CASE("random grammars match what their rules say") {
  Random random(7);
  int yes = 0, no = 0, refused = 0;
  const int grammars = quick() ? 150 : 3000;
  for (int i = 0; i < grammars; ++i) {
    std::string source = "root ::= " + random_expr(random, 3, 0) + "\n";
    for (int r = 0; r < 3; ++r) source += "r" + std::to_string(r) + " ::= \"c\" " + random_expr(random, 3, 1) + " | " + (r == 0 ? "\"d\"" : random_expr(random, r, 2)) + "\n";
    CAPTURE(source);
    std::optional<Grammar> compiled;
    try {
      compiled = Grammar::from_gbnf(source);
    } catch (const Error&) {
      ++refused;  // left recursion, which the reference cannot read either, or a rule without end
      continue;
    }
    const grammar::Rules rules = grammar::read_gbnf(source, "root");
    for (int t = 0; t < 6; ++t) {
      std::string text;
      if (!reference::GrammarWriter(rules, random).write(text) || text.size() > 40) continue;
      CHECK(compiled->matches(text));
      ++yes;
      const std::string other = mutated(text, random);
      const bool expected = reference::GrammarReader(rules, other).matches();
      CHECK_MESSAGE(compiled->matches(other) == expected, other);
      no += expected ? 0 : 1;
    }
  }
  CHECK(yes > grammars);
  CHECK(no > grammars / 4);
  CHECK(refused < grammars);
}

TEST_CASE("what is no grammar is told of by line and column") {
  CHECK(error_of([] { (void)Grammar::from_gbnf("root ::= \"a"); }) == "grammar: line 1, column 12: expected a character, found the end");
  CHECK(error_of([] { (void)Grammar::from_gbnf("root ::= x"); }) == "grammar: expected a rule named x, which line 1, column 10 uses, found none");
  CHECK(error_of([] { (void)Grammar::from_gbnf("rot ::= \"a\""); }) == "grammar: expected a rule named root, found none");
  CHECK(error_of([] { (void)Grammar::from_gbnf("root = \"a\""); }) == "grammar: line 1, column 6: expected ::=, found '= \"a\"'");
  CHECK(error_of([] { (void)Grammar::from_gbnf("root ::= a\na ::= b \"x\" | \"y\"\nb ::= a"); }).starts_with("grammar: expected no left recursion, found "));
  CHECK(error_of([] { (void)Grammar::from_gbnf("root ::= \"a\" root"); }) == "grammar: expected a rule root that matches a text, found one that cannot end");
  CHECK(error_of([] { (void)Grammar::from_gbnf("root ::= \"\"* root \"a\" | \"b\""); }).starts_with("grammar: expected no left recursion"));
  CHECK(error_of([] { (void)Grammar::from_gbnf("root ::= [b-a]"); }).starts_with("grammar: line 1, column 14: expected a range that rises"));
  CHECK(error_of([] { (void)Grammar::from_gbnf("root ::= \"\\q\""); }).starts_with("grammar: line 1, column 12: expected t, r, n"));
  CHECK(error_of([] { (void)Grammar::from_gbnf("root ::= \"a\"\nroot ::= \"b\""); }).starts_with("grammar: line 2, column 1: expected one rule named root"));
}

TEST_CASE("hostile grammars are refused, or compiled, within a second") {
  const auto within_a_second = [](const std::string& source, const std::string& text = "") {
    const auto begin = std::chrono::steady_clock::now();
    try {
      (void)Grammar::from_gbnf(source).matches(text);
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    // Builds with sanitizers and busy machines take longer.
    CHECK_MESSAGE(seconds < (quick() ? 20.0 : 4.0), source.substr(0, 60));
  };
  within_a_second("root ::= ((((\"a\"{60000}){60000}){60000}){60000})");
  within_a_second("root ::= ((((\"\"{60000}){60000}){60000}){60000})");
  within_a_second("root ::= ((((\"a\"?){100}){100}){100})*");
  within_a_second("root ::= (\"a\" | \"b\")* \"a\" (\"a\" | \"b\"){30000}");  // 2^30000 deterministic states
  within_a_second("root ::= " + std::string(100000, '(') + "\"a\"");
  std::string options = "root ::= ";
  for (int i = 0; i < 20000; ++i) options += "[a-z]? ";
  within_a_second(options);
  std::string chain = "root ::= r0\n", doubling = "root ::= r0\n", empties = "root ::= r0\n";
  for (int i = 0; i < 40000; ++i) {
    chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
    empties += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "? r" + std::to_string(i + 1) + "?\n";
    if (i < 60) doubling += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " r" + std::to_string(i + 1) + "\n";
  }
  within_a_second(chain + "r40000 ::= \"a\"\n");
  within_a_second(empties + "r40000 ::= \"a\"?\n");
  within_a_second(doubling + "r60 ::= \"a\"\n");
  std::string words = "root ::= \"\"";
  for (int i = 0; i < 30000; ++i) words += " | \"word" + std::to_string(i * 7919 % 100003) + "\" root2";
  within_a_second(words + "\nroot2 ::= \"x\"");
  // A rule that may be empty, so that after each of them any later one may come.
  const std::string nested = "b ::= \"(\" root \")\" | \"x\"*\n", text = "a(a" + std::string(300, 'r') + ")";
  for (const char* times : {"263", "16000", "1000000"}) within_a_second("root ::= \"a\" (b | [:-z]){" + std::string(times) + "}\n" + nested, text);
  std::string calls = "root ::= \"a\"";
  for (int i = 0; i < 2000; ++i) calls += " (b | [:-z])";
  within_a_second(calls + "\n" + nested, text);
}

TEST_CASE("what may be empty is repeated as often as it reads something") {
  const std::string nested = "\nb ::= \"(\" root \")\" | \"x\"*";
  for (const char* times : {"{300}", "{7,300}", "{0,300}"}) {
    const std::string source = "root ::= (b | \"y\")" + std::string(times) + nested;
    CAPTURE(times);
    std::string text;
    for (int i = 0; i < 300; ++i) text += i % 3 == 0 ? "y" : "()";
    CHECK(matches(source, text));
    CHECK(matches(source, ""));
    CHECK(matches(source, "(" + text + ")xx"));
    CHECK_FALSE(matches(source, text + "y"));
    CHECK_FALSE(matches(source, "(" + text + "y)"));
  }
  CHECK(matches("root ::= (b | \"y\"){3,}" + nested, "yy(y)xyy()"));
}

TEST_CASE("ambiguous texts are followed, and lists do not grow a stack") {
  const Grammar many = Grammar::from_gbnf("root ::= \"a\" root root | \"a\"");
  std::string text(301, 'a');
  CHECK(many.matches(text));
  CHECK(Grammar::from_gbnf("root ::= \"a\" root | \"b\"").matches(std::string(20000, 'a') + "b"));
  CHECK(Grammar::from_gbnf("root ::= \"(\" root \")\" | \"x\"").matches(std::string(3000, '(') + "x" + std::string(3000, ')')));
}
