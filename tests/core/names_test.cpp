// Names: what a slip of the fingers is taken for.
#include "bantam/core/names.hpp"

#include "support.hpp"

namespace bantam::test {
namespace {

using Names = std::vector<std::string_view>;
constexpr std::string_view verbs[] = {"run", "tokenize", "logits", "perplexity", "compress", "inspect", "bench", "formats"};

TEST_CASE("a slip finds the name that was meant, and only near ones") {
  CHECK(nearest_names("rnu", verbs) == Names{"run"});
  CHECK(nearest_names("compres", verbs) == Names{"compress"});
  CHECK(nearest_names("COMPRES", verbs) == Names{"compress"});
  CHECK(nearest_names("inspcet", verbs) == Names{"inspect"});
  CHECK(nearest_names("perplex", verbs) == Names{"perplexity"});
  CHECK(nearest_names("serve", verbs).empty());
  CHECK(nearest_names("x", verbs).empty());
  CHECK(nearest_names("", verbs).empty());
  CHECK(nearest_names(std::string(1'000'000, 'r'), verbs).empty());
}

TEST_CASE("the nearest comes first, three at most, each once") {
  constexpr std::string_view names[] = {"abcd5678", "abcd1234", "abcd1235", "abcd1239", "abcd1235"};
  CHECK(nearest_names("abcd1235", names) == Names{"abcd1235", "abcd1234", "abcd1239"});
}

TEST_CASE("a guess is put as a question") {
  CHECK(did_you_mean("rum", verbs) == "; did you mean run?");
  CHECK(did_you_mean("zzzzzz", verbs).empty());
  constexpr std::string_view two[] = {"q4_0", "q4_1"};
  CHECK(did_you_mean("q4_", two) == "; did you mean q4_0 or q4_1?");
}

TEST_CASE("a choice by a wrong name says what there is and what was meant") {
  CHECK(error_of([] { (void)find_name("verb", "bnech", verbs); }) ==
        "verb: expected one of run, tokenize, logits, perplexity, compress, inspect, bench, formats, found bnech; did you mean bench?");
}

}  // namespace
}  // namespace bantam::test
