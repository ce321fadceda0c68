// The pieces of a vocabulary as a trie of bytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "bantam/core/memory.hpp"
#include "bantam/text/tokenizer.hpp"

namespace bantam::inline v0 {

/// Walked byte by byte. Nodes lie level by level, the children of one side by side: 9 bytes a node.
class PieceTrie {
 public:
  using Node = std::uint32_t;
  static constexpr Node root = 0;
  static constexpr Node nowhere = ~Node{0};
  struct Piece {
    std::string_view text;
    TokenId id;
  };

  PieceTrie() : PieceTrie(std::span<const Piece>()) {}
  /// No empty texts; of equal ones the first counts. O(bytes), and sorting.
  explicit PieceTrie(std::span<const Piece> pieces);

  [[nodiscard]] Node child(Node node, unsigned char byte) const noexcept {
    if (node == root) return roots_[byte];
    for (Node at = children_[node]; at < children_[node + 1]; ++at) {
      if (bytes_[at] == byte) return at;
    }
    return nowhere;
  }
  /// Where a text leads, or nowhere.
  [[nodiscard]] Node walk(std::string_view text, Node from = root) const noexcept {
    for (const char c : text) {
      if (from == nowhere) break;
      from = child(from, static_cast<unsigned char>(c));
    }
    return from;
  }
  /// The piece that ends at a node, or -1.
  [[nodiscard]] TokenId id(Node node) const noexcept { return ids_[node]; }

 private:
  std::array<Node, 256> roots_;
  LargeVector<Node> children_;  ///< where the children of a node begin; one entry more than nodes
  LargeVector<TokenId> ids_;
  LargeVector<unsigned char> bytes_;
};

}  // namespace bantam::inline v0
