// The rules of a grammar as expressions, whatever they were written in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/core/error.hpp"

namespace bantam::inline v0::grammar {

/// Code points from first to last.
struct CharRange {
  std::uint32_t first;
  std::uint32_t last;
};

/// A set of code points: ranges in rising order that do not touch.
class CharSet {
 public:
  CharSet() = default;
  CharSet(std::initializer_list<CharRange> ranges) : CharSet(std::vector<CharRange>(ranges)) {}
  explicit CharSet(std::vector<CharRange> ranges);
  [[nodiscard]] static CharSet all() { return {{0, last_code_point}}; }
  /// All other code points.
  [[nodiscard]] CharSet negated() const;
  [[nodiscard]] CharSet joined(const CharSet& other) const;
  [[nodiscard]] CharSet without(const CharSet& other) const { return negated().joined(other).negated(); }
  [[nodiscard]] bool holds(std::uint32_t code) const noexcept;
  [[nodiscard]] const std::vector<CharRange>& ranges() const noexcept { return ranges_; }
  [[nodiscard]] std::uint64_t count() const noexcept;

  static constexpr std::uint32_t last_code_point = 0x10ffff;

 private:
  std::vector<CharRange> ranges_;
};

/// UTF-8 of a code point.
void put_utf8(std::string& out, std::uint32_t code);
/// The code point at the front of `text`, which loses it. False for what is no UTF-8.
[[nodiscard]] bool take_utf8(std::string_view& text, std::uint32_t& code);

/// A token that a grammar names: by id, or by its text where that is empty not.
struct TokenName {
  std::string text;
  std::int32_t id = -1;
  bool negated = false;  ///< any other token
};

using Expr = std::uint32_t;
using Rule = std::uint32_t;

class Rules {
 public:
  enum class Kind : std::uint8_t { text, chars, sequence, choice, repeat, rule, token };
  struct Node {
    Kind kind;
    std::uint32_t first;  ///< of its links; of texts, sets or tokens; the rule
    std::uint32_t count;  ///< of its links
    std::int32_t least;   ///< repetitions
    std::int32_t most;    ///< -1: any number
  };
  static constexpr std::int32_t unbounded = -1;
  /// Room for the schemas and grammars that people have, by a factor of hundreds.
  static constexpr std::size_t most_nodes = 1 << 20;

  [[nodiscard]] Expr text(std::string_view bytes);
  [[nodiscard]] Expr nothing() { return text(""); }
  [[nodiscard]] Expr chars(CharSet set);
  [[nodiscard]] Expr sequence(std::vector<Expr> parts);
  /// Of no alternative: what matches no text.
  [[nodiscard]] Expr choice(std::vector<Expr> parts);
  [[nodiscard]] Expr repeat(Expr part, std::int32_t least, std::int32_t most = unbounded);
  [[nodiscard]] Expr optional(Expr part) { return repeat(part, 0, 1); }
  [[nodiscard]] Expr token(TokenName name);
  [[nodiscard]] Expr call(Rule rule);
  /// A rule that define() says more of.
  [[nodiscard]] Rule declare(std::string name);
  void define(Rule rule, Expr body) { rules_[rule].body = body; }
  /// A rule of its own for an expression.
  [[nodiscard]] Expr named(std::string name, Expr body);

  struct Definition {
    std::string name;
    Expr body = undefined;
  };
  static constexpr Expr undefined = ~Expr{0};
  [[nodiscard]] const Node& node(Expr expr) const { return nodes_[expr]; }
  [[nodiscard]] Expr link(const Node& node, std::uint32_t i) const { return links_[node.first + i]; }
  [[nodiscard]] const std::string& text_of(const Node& node) const { return texts_[node.first]; }
  [[nodiscard]] const CharSet& set_of(const Node& node) const { return sets_[node.first]; }
  [[nodiscard]] const std::vector<TokenName>& tokens() const noexcept { return tokens_; }
  [[nodiscard]] const std::vector<Definition>& rules() const noexcept { return rules_; }
  [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }

 private:
  Expr add(Node node);
  Expr add_list(Kind kind, const std::vector<Expr>& parts);

  std::vector<Node> nodes_;
  std::vector<Expr> links_;
  std::vector<std::string> texts_;
  std::vector<CharSet> sets_;
  std::vector<TokenName> tokens_;
  std::vector<Definition> rules_;
};

/// Reads GBNF; every rule is defined. The first is the root.
[[nodiscard]] Rules read_gbnf(std::string_view text, std::string_view root);

/// The rules of a JSON schema; the first is the root.
[[nodiscard]] Rules read_json_schema(std::string_view schema);

/// The rules of a regular expression, as json_pattern() has them, that is the whole text's.
[[nodiscard]] Rules read_regex(std::string_view pattern);

}  // namespace bantam::inline v0::grammar
