// The pieces of a vocabulary as a trie of bytes.
#include "text/piece_trie.hpp"

#include <algorithm>

namespace bantam::inline v0 {

PieceTrie::PieceTrie(std::vector<Piece> pieces) {
  std::ranges::stable_sort(pieces, {}, &Piece::text);
  roots_.fill(nowhere);
  // The pieces below a node stand together in sorted order.
  struct Range {
    std::size_t begin, end, depth;
  };
  std::vector<Range> open = {{0, pieces.size(), 0}};
  ids_.push_back(-1);
  bytes_.push_back(0);
  for (std::size_t node = 0; node < open.size(); ++node) {
    auto [at, end, depth] = open[node];
    children_.push_back(static_cast<Node>(open.size()));
    if (depth > 0 && at < end && pieces[at].text.size() == depth) ids_[node] = pieces[at].id;
    while (at < end && pieces[at].text.size() == depth) ++at;
    while (at < end) {
      const auto byte = static_cast<unsigned char>(pieces[at].text[depth]);
      std::size_t next = at + 1;
      while (next < end && static_cast<unsigned char>(pieces[next].text[depth]) == byte) ++next;
      if (node == root) roots_[byte] = static_cast<Node>(open.size());
      open.push_back({at, next, depth + 1});
      ids_.push_back(-1);
      bytes_.push_back(byte);
      at = next;
    }
  }
  children_.push_back(static_cast<Node>(open.size()));
}

}  // namespace bantam::inline v0
