// The tree of a vocabulary's texts.
#pragma once

#include "bantam/grammar/grammar.hpp"

namespace bantam::inline v0 {

struct TokenTrie::Data {
  /// In the order of a walk that goes down first, so that all below a node follow it. Node 0 is the empty text.
  struct Node {
    std::uint32_t end;    ///< one behind the last node below
    std::uint32_t token;  ///< in `ids`: the first that has this text, or lies below
    std::uint32_t depth;
    std::uint8_t byte;
  };

  explicit Data(const Tokenizer& t);
  /// Tokens of exactly a node's text.
  [[nodiscard]] std::span<const TokenId> at(std::uint32_t node) const noexcept {
    const std::size_t first = nodes[node].token;
    const std::size_t last = node + 1 < nodes.size() ? nodes[node + 1].token : ids.size();
    return std::span(ids).subspan(first, last - first);
  }
  /// A node's text.
  [[nodiscard]] std::string_view text(std::uint32_t node) const noexcept {
    return std::string_view(bytes).substr(offsets[nodes[node].token], nodes[node].depth);
  }

  /// Whether a token stands for its bytes: others may come only where a grammar names them.
  [[nodiscard]] bool is_text(TokenId id) const;

  Tokenizer tokenizer;
  std::vector<Node> nodes;
  std::vector<TokenId> ids;  ///< tokens that are text, by their bytes
  std::string bytes;         ///< theirs
  std::vector<std::size_t> offsets;
  std::vector<TokenId> ends;  ///< tokens that end the generation
  std::uint32_t deepest = 0;
};

}  // namespace bantam::inline v0
