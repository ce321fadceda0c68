// The pieces of a vocabulary as a trie of bytes.
#include "text/piece_trie.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

#include "text/text_order.hpp"

namespace bantam::inline v0 {

PieceTrie::PieceTrie(std::span<const Piece> pieces) {
  LargeVector<std::uint32_t> order(pieces.size());
  std::iota(order.begin(), order.end(), 0U);
  sort_by_text(order, [&](std::uint32_t i) { return pieces[i].text; });
  // The i-th in order. Pieces lie beyond the caches: those that follow are asked for some steps ahead.
  const auto piece_at = [&](std::size_t i) -> const Piece& {
    constexpr std::size_t ahead = 16;
    if (i + 2 * ahead < order.size()) __builtin_prefetch(&pieces[order[i + 2 * ahead]]);
    if (i + ahead < order.size()) __builtin_prefetch(pieces[order[i + ahead]].text.data());
    return pieces[order[i]];
  };

  // Sorted, each piece makes a node for each byte that it does not share with the one before.
  LargeVector<std::uint32_t> shared(order.size());
  std::vector<std::uint32_t> next(2);  // by depth: first how many nodes more than a level above, then how many, then the number of the next one
  std::string_view before;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::string_view text = piece_at(i).text;
    const auto same = static_cast<std::size_t>(std::mismatch(text.begin(), text.end(), before.begin(), before.end()).first - text.begin());
    if (next.size() < text.size() + 2) next.resize(text.size() + 2);
    ++next[same + 1];
    --next[text.size() + 1];
    shared[i] = static_cast<std::uint32_t>(same);
    before = text;
  }
  next[0] = 1;
  std::partial_sum(next.begin() + 1, next.end(), next.begin() + 1);
  std::exclusive_scan(next.begin(), next.end(), next.begin(), Node{0});

  const std::size_t nodes = next.back();
  children_.resize(nodes + 1);
  ids_.resize(nodes, -1);
  bytes_.resize(nodes);
  roots_.fill(nowhere);
  children_[root] = 1;
  children_[nodes] = static_cast<Node>(nodes);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Piece& piece = piece_at(i);
    for (std::size_t depth = shared[i] + 1; depth <= piece.text.size(); ++depth) {
      const Node node = next[depth]++;
      const auto byte = static_cast<unsigned char>(piece.text[depth - 1]);
      bytes_[node] = byte;
      children_[node] = next[depth + 1];  // what is made there from now on, until a node follows here
      if (depth == 1) roots_[byte] = node;
      if (depth == piece.text.size()) ids_[node] = piece.id;
    }
  }
}

}  // namespace bantam::inline v0
