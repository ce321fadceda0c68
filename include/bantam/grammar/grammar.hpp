// Grammars: which texts may come, and which tokens may come next.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "bantam/text/tokenizer.hpp"

namespace bantam::inline v0 {

/// A set of texts, compiled to an automaton with a stack. Immutable and shared: copying is cheap. Every text that it begins can be
/// ended: rules that match nothing are left out. Compiling takes less than a second and some tens of MB whatever the source, or
/// throws unsupported.
class Grammar {
 public:
  /// GBNF, as llama.cpp's grammars are written. Throws invalid_argument with line and column for what is none, for rules that are not
  /// there, for left recursion and for a grammar that matches no text; unsupported for one that is too large.
  [[nodiscard]] static Grammar from_gbnf(std::string_view text, std::string_view root = "root");
  /// The JSON texts that a JSON schema allows, members in the order in which it lists them (docs/grammars.md). Throws
  /// invalid_argument for what is no schema, unsupported with the path of a keyword that cannot be kept to; none is passed over.
  [[nodiscard]] static Grammar from_json_schema(std::string_view schema);
  /// The texts that a regular expression is the whole of: ECMA 262, without assertions but ^ and $ at its ends, and without references
  /// back. Throws unsupported with the byte for what is not understood, invalid_argument for what matches no text.
  [[nodiscard]] static Grammar from_regex(std::string_view pattern);
  /// Any JSON object.
  [[nodiscard]] static Grammar json_object();

  /// Whether it allows this text, whole. Throws unsupported for a grammar that is too ambiguous for it. Tokens named by a grammar
  /// (`<think>`) are no text.
  [[nodiscard]] bool matches(std::string_view text) const;

  struct Data;  ///< private

 private:
  friend class TokenGrammar;
  explicit Grammar(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

/// The texts of a vocabulary's tokens as a tree. Immutable and shared; made once for a tokenizer, which takes some tens of
/// milliseconds for 256k tokens.
class TokenTrie {
 public:
  explicit TokenTrie(const Tokenizer& tokenizer);
  [[nodiscard]] const Tokenizer& tokenizer() const noexcept;

  struct Data;  ///< private

 private:
  friend class TokenGrammar;
  std::shared_ptr<const Data> data_;
};

/// A grammar over the tokens of a vocabulary, with what is found out about them as it is used. Copies share that; safe to use
/// from any number of threads.
class TokenGrammar {
 public:
  /// Throws invalid_argument for a token that the grammar names and the vocabulary lacks.
  TokenGrammar(const Grammar& grammar, const TokenTrie& trie);
  TokenGrammar(const Grammar& grammar, const Tokenizer& tokenizer) : TokenGrammar(grammar, TokenTrie(tokenizer)) {}
  [[nodiscard]] std::int32_t vocab_size() const noexcept;

  struct Data;  ///< private

 private:
  friend class GrammarMatcher;
  std::shared_ptr<Data> data_;
};

/// How far a text has come in a grammar. For one thread at a time; a copy goes its own way.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(TokenGrammar grammar);
  ~GrammarMatcher();
  GrammarMatcher(const GrammarMatcher& other);
  GrammarMatcher(GrammarMatcher&&) noexcept;
  GrammarMatcher& operator=(GrammarMatcher other) noexcept;

  /// Takes a token; false, and nothing changes, where it may not come. Throws invalid_argument for an id outside the vocabulary,
  /// unsupported where the text is too ambiguous to be followed.
  [[nodiscard]] bool accept(TokenId id);
  /// One bit for each token that may come, the lowest bit of the first word first; valid until the next call. Tokens that end the
  /// generation may come where the text is whole, other control tokens only where the grammar names them.
  [[nodiscard]] std::span<const std::uint64_t> mask();
  /// Minus infinity for the logits of tokens that may not come. Throws invalid_argument where there are more logits than tokens, and
  /// unsupported where none may come: the vocabulary cannot spell what is next, or it would nest too deeply.
  void apply(std::span<float> logits);

  /// Whether the text so far is one of the grammar's.
  [[nodiscard]] bool can_end() const noexcept;
  /// Whether nothing may follow it.
  [[nodiscard]] bool finished() const noexcept;
  /// Tokens accepted.
  [[nodiscard]] std::size_t size() const noexcept;
  /// Forgets the last `count` tokens. Throws invalid_argument for more than there are.
  void rewind(std::size_t count);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bantam::inline v0
