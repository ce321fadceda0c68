// Masks over real vocabularies against each token tried by itself.
#include "bantam/core/random.hpp"
#include "bantam/grammar/grammar.hpp"
#include "bantam/io/gguf.hpp"
#include "limits.hpp"
#include "support.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

bool has(std::span<const std::uint64_t> mask, TokenId id) { return (mask[static_cast<std::size_t>(id) / 64] >> (id % 64) & 1) != 0; }

/// Goes through a text of the grammar at random; at some places every token's bit is compared with what accept() says.
void check_masks(const Tokenizer& tokenizer, const Grammar& grammar, std::uint64_t seed, int steps, int every) {
  const TokenTrie trie(tokenizer);
  GrammarMatcher matcher(TokenGrammar(grammar, trie));
  Random random(seed);
  std::string text;
  bool ended = false;
  for (int step = 0; step < steps && !ended; ++step) {
    const auto span = matcher.mask();
    const std::vector<std::uint64_t> mask(span.begin(), span.end());
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
      if (has(mask, id)) allowed.push_back(id);
    }
    if (allowed.empty()) {  // a small vocabulary cannot spell everything
      for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) CHECK_FALSE(matcher.accept(id));
      return;
    }
    if (step % every == 0) {
      for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
        const bool accepted = matcher.accept(id);
        if (accepted) matcher.rewind(1);
        if (accepted != has(mask, id)) FAIL_CHECK("token ", id, " after '", text, "': accepted ", accepted);
      }
    }
    CHECK(matcher.can_end() == grammar.matches(text));
    const TokenId next = allowed[static_cast<std::size_t>(random.uniform() * static_cast<double>(allowed.size()))];
    REQUIRE(matcher.accept(next));
    ended = tokenizer.ends_generation(next);
    if (!ended) text += tokenizer.piece_bytes(next);
  }
  if (ended) CHECK(grammar.matches(text));
}

const char* const schema = R"({"type": "object", "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"enum": ["red", "green", "greenish"]}},
  "age": {"type": "integer", "minimum": 3, "maximum": 217}, "when": {"format": "date"}, "more": {}}, "required": ["name", "age"], "additionalProperties": {"type": "number"}})";

}  // namespace

TEST_CASE("masks hold exactly the tokens that can be accepted") {
  for (const char* folder : {"models/stories260k", "models/babyllama105"}) {
    BANTAM_NEED_SHARED(path, folder);
    const Tokenizer tokenizer = Tokenizer::from_folder(path);
    for (std::uint64_t seed = 0; seed < (quick() ? 1U : 4U); ++seed) {
      CAPTURE(folder);
      CAPTURE(seed);
      check_masks(tokenizer, Grammar::from_json_schema(schema), seed, 60, 3);
      check_masks(tokenizer, Grammar::from_json_schema("{}"), seed, 60, 5);
      check_masks(tokenizer, Grammar::from_gbnf("root ::= (word [ ,])* word \".\"\nword ::= [a-z]{1,4} | \"\\u00e9\" word?"), seed, 30, 3);
      check_masks(tokenizer, Grammar::from_gbnf("root ::= (\"a\" | \"ab\" | \"abc\" | root2)+\nroot2 ::= \"(\" root \")\" | [^a-z(]+"), seed, 30, 3);
    }
  }
}

TEST_CASE("what a vocabulary cannot spell is an error of its own") {
  BANTAM_NEED_SHARED(path, "models/babyllama105");
  const Tokenizer tokenizer = Tokenizer::from_folder(path);  // of characters, without bytes
  const TokenTrie trie(tokenizer);
  const auto code_of = [&](const char* gbnf) {
    try {
      GrammarMatcher matcher(TokenGrammar(Grammar::from_gbnf(gbnf), trie));
      std::vector<float> logits(static_cast<std::size_t>(tokenizer.vocab_size()));
      matcher.apply(logits);
    } catch (const Error& error) {
      return std::optional(error.code());
    }
    return std::optional<Errc>();
  };
  CHECK(code_of("root ::= \"a\"") == std::nullopt);
  CHECK(code_of("root ::= \"\\u65e5\"") == Errc::grammar);
  CHECK(code_of("root ::= <no-such-token>") == Errc::grammar);
  CHECK(code_of("root ::= nothing") == Errc::invalid_argument);
}

TEST_CASE("vocabularies of bytes and of 50k words give exact masks") {
  for (const char* file : {"tokenizers/ggml-vocab-gpt-2.gguf", "tokenizers/ggml-vocab-llama-spm.gguf", "tokenizers/ggml-vocab-deepseek-llm.gguf"}) {
    BANTAM_NEED_SHARED(path, file);
    const Tokenizer tokenizer = Tokenizer::from_gguf(*GgufFile::open(path));
    CAPTURE(file);
    check_masks(tokenizer, Grammar::from_json_schema(schema), 5, quick() ? 5 : 40, 8);
  }
}

TEST_CASE("special tokens come where a grammar names them, and the end where the text is whole") {
  BANTAM_NEED_SHARED(path, "models/babyllama105");
  const Tokenizer tokenizer = Tokenizer::from_folder(path);
  const std::string bos(tokenizer.piece(tokenizer.bos()));
  GrammarMatcher matcher(TokenGrammar(Grammar::from_gbnf("root ::= \"a\" " + bos + " \"b\""), tokenizer));
  CHECK_FALSE(matcher.accept(tokenizer.bos()));
  CHECK_FALSE(matcher.accept(tokenizer.eos()));
  REQUIRE(matcher.accept(tokenizer.find("a")));
  CHECK(has(matcher.mask(), tokenizer.bos()));
  REQUIRE(matcher.accept(tokenizer.bos()));
  GrammarMatcher other = matcher;
  REQUIRE(matcher.accept(tokenizer.find("b")));
  CHECK(matcher.finished());
  CHECK(has(matcher.mask(), tokenizer.eos()));
  REQUIRE(matcher.accept(tokenizer.eos()));
  CHECK(matcher.size() == 4);
  matcher.rewind(3);
  REQUIRE(matcher.accept(tokenizer.bos()));
  CHECK_FALSE(other.can_end());
  CHECK(other.accept(tokenizer.find("b")));
  CHECK(error_of([&] { matcher.rewind(9); }) == "grammar: expected at most 2 tokens to take back, found 9");
  CHECK(error_of([&] { GrammarMatcher m(TokenGrammar(Grammar::from_gbnf("root ::= <no-such-token>"), tokenizer)); }).starts_with("grammar: expected a vocabulary with the token <no-such-token>"));
}
